# The founding study's tables of sizes, then rates that a worker left in the database.
t nocturne farm --users 50 --requests 5,20,50 --tokens 300,500,800 --rate 0.37 --hours 8 --utilisation 0.7
t nocturne farm --users 50 --requests 20 --tokens 500 --rate 0.37 --json
nocturne farm --users 50 --requests 5,20,50 --tokens 300,500,800 --rate 0.37 --json | grep machines
t nocturne farm --users 50 --requests 20 --tokens 500
t nocturne farm --requests 20 --tokens 500
t nocturne farm --users 50 --requests 20
t nocturne farm --users 50 --requests 20,many --tokens 500
t nocturne farm --users 50 --requests 1,2 --tokens 3,4,5
t nocturne farm --users 50 --requests 20 --tokens 500 --rate 0
t nocturne farm --users 50 --requests 20 --tokens 500 --utilisation 1.5
small_model
nocturne submit -q -p one -p two --max-tokens 8 > .out
t nocturne farm --users 50 --requests 20 --tokens 500
nocturne run -m model.gguf --drain --slots 2 --ctx 64 --raw --memory 160M > .out 2>&1 || cat .out
nocturne farm --users 50 --requests 20 --tokens 500 | sed -E 's/^(speed +)[0-9.e+]+ /\1X /; s/^(stream +).*/\1RATES/; s/^(machine +)[0-9,]+ /\1X /; s/ in [0-9]+s$/ in TIME/; s/[0-9.]+ (s|min)  /LATENCY  /' | tr -s ' '
nocturne farm --users 50 --requests 20 --tokens 500 --json | grep -E '"(source|model|requests|tokens)"'
