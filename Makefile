# nocturne: `make help` lists what there is.
FLAVOUR ?= release
DEV ?= 0
PREFIX ?= /usr/local
T ?=
B := build/$(FLAVOUR)

# ARCH=aarch64 on another machine: its release build, in a folder of its own, with the cross compiler.
HOST_ARCH := $(shell $(CC) -dumpmachine | cut -d- -f1)
ARCH ?= $(HOST_ARCH)
CROSS := $(filter-out $(HOST_ARCH),$(ARCH))
ifneq ($(CROSS),)
ifneq ($(FLAVOUR),release)
$(error FLAVOUR=$(FLAVOUR) is built for this machine only, not for ARCH=$(ARCH))
endif
CC := $(ARCH)-linux-gnu-gcc
AR := $(ARCH)-linux-gnu-ar
B := build/$(ARCH)
endif

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wvla \
  -Wundef -Wpointer-arith -Wwrite-strings -Wformat=2 -Wimplicit-fallthrough -Wswitch-enum -Wcast-qual
ifeq ($(DEV),1)
WARN += -Werror
endif

PARALLEL := omp
OPT_release := -O2 -g
OPT_asan := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
OPT_tsan := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
OPT_fuzz := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link \
  -fno-sanitize-recover=all
ifneq ($(filter tsan fuzz,$(FLAVOUR)),)
PARALLEL := pthread
endif
ifeq ($(FLAVOUR),fuzz)
CC := clang
endif
OPENMP_omp := -fopenmp
OPENMP_pthread := -pthread

CFLAGS ?=
CFLAGS_ALL = -std=c11 -D_GNU_SOURCE -I. $(OPT_$(FLAVOUR)) -ffp-contract=off -fno-math-errno \
  -fno-strict-aliasing -DCJSON_HIDE_SYMBOLS $(WARN) $(ISA_FLAGS) $(OPENMP_$(PARALLEL)) $(EXTRA) $(CFLAGS)
LDLIBS_ALL = $(OPT_$(FLAVOUR)) $(OPENMP_$(PARALLEL)) -pthread $(LDFLAGS) \
  -lsqlite3 -lcjson -luuid -lpcre2-8 -lmd -luring -lm

# How much the sanitizers, or an emulator, stretch the tests' time limits.
TEST_TIME_SCALE := $(if $(CROSS),10,$(if $(filter release,$(FLAVOUR)),1,6))
$(B)/tests/runner.o: EXTRA := -DTEST_TIME_SCALE=$(TEST_TIME_SCALE)
# In the test runner a fuzz target runs over its committed corpus.
ifneq ($(FLAVOUR),fuzz)
$(B)/tests/fuzz/%.o: EXTRA := -DFUZZ_REPLAY
endif

# Only these folders' code may use instructions that the baseline lacks.
ISA_avx2 := -mavx2 -mfma -mf16c
ISA_avx512 := $(ISA_avx2) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
OPT_KERNELS := $(if $(filter release,$(FLAVOUR)),-O3)
# Pointers to many rows, kept in vectors, would be taken out of them again for every load.
OPT_POINTERS := -fno-tree-slp-vectorize
ISA_neon := -march=armv8.2-a+dotprod
$(B)/engine/kernels/cpu/generic/%.o: ISA_FLAGS = $(OPT_KERNELS)
$(B)/engine/kernels/cpu/avx2/%.o: ISA_FLAGS = $(ISA_avx2) $(OPT_KERNELS) $(OPT_POINTERS)
$(B)/engine/kernels/cpu/avx512/%.o: ISA_FLAGS = $(ISA_avx512) $(OPT_KERNELS) $(OPT_POINTERS)
$(B)/engine/kernels/cpu/neon/%.o: ISA_FLAGS = $(ISA_neon) $(OPT_KERNELS)
$(B)/engine/kernels/cpu/neon_i8mm/%.o: ISA_FLAGS = $(ISA_neon)+i8mm $(OPT_KERNELS)

find_c = $(sort $(shell find $(1) -name '*.c' 2>/dev/null))
BASE_SRC := $(filter-out base/parallel_omp.c base/parallel_pthread.c,$(call find_c,base)) base/parallel_$(PARALLEL).c
ENGINE_SRC := $(call find_c,engine)
KERNELS_x86_64 := avx2 avx512
KERNELS_aarch64 := neon neon_i8mm
NO_KERNELS := $(filter-out $(KERNELS_$(ARCH)),$(KERNELS_x86_64) $(KERNELS_aarch64))
ENGINE_SRC := $(filter-out $(NO_KERNELS:%=engine/kernels/cpu/%/%),$(ENGINE_SRC))
QUEUE_SRC := $(call find_c,queue)
JOBS_SRC := $(call find_c,jobs)
BATCH_SRC := $(call find_c,batch)
TEST_SRC := $(filter-out tests/fixtures/%,$(call find_c,tests))
TOOL_SRC := $(sort $(wildcard tools/*.c))
TOOL_LIB_SRC := $(filter-out $(TOOL_SRC),$(call find_c,tools))
FUZZ_SRC := $(call find_c,tests/fuzz)
BENCH_SRC := $(call find_c,bench)
obj = $(patsubst %.c,$(B)/%.o,$(1))

# TSan leaves the matrix products out: with them the engine's tests take four times as long. So it
# does not see a race on what a product reads or writes; that one writes its own range only, and gives
# the same bits whatever the cut, are tests (tests/engine/kernels.c). All other code is watched.
ifeq ($(FLAVOUR),tsan)
$(filter-out %/act.o %/attention.o %/attention_few.o %/vector.o,$(call obj,$(call find_c,engine/kernels/cpu))): \
  EXTRA := -fno-sanitize=thread -O2
endif

LIBS := $(B)/libjobs.a $(B)/libqueue.a $(B)/libengine.a $(B)/libbase.a
BATCH_LIB_OBJ := $(filter-out $(B)/batch/main.o,$(call obj,$(BATCH_SRC)))
TOOLS := $(patsubst tools/%.c,$(B)/tools/%,$(TOOL_SRC))
BENCHES := $(patsubst bench/%.c,$(B)/bench/%,$(BENCH_SRC))

.PHONY: all help demo test test-long test-aarch64 cli-test vm-test vm-test-systemd asan tsan lint fuzz bench bench-peer bench-kernels bench-replay eval-peer install clean deps tests tools benches fuzzers
# Only the release is what `build/nocturne` is, and what gets installed.
all: $(if $(CROSS)$(filter-out release,$(FLAVOUR)),$(B)/nocturne,build/nocturne) ## build the portable release binary, build/nocturne [ARCH=aarch64: build/aarch64/nocturne]

build/nocturne: $(B)/nocturne
	@mkdir -p build && ln -f $(B)/nocturne $@

help: ## this list
	@sed -n 's/^\([a-z][a-z0-9 -]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

# The schema's SQL becomes a C table; nothing else is generated.
$(B)/queue/schema_gen.h: $(sort $(wildcard queue/schema/*.sql)) tools/embed-sql.sh
	@mkdir -p $(@D)
	sh tools/embed-sql.sh $(wildcard queue/schema/*.sql) > $@.tmp && mv $@.tmp $@
$(call obj,$(QUEUE_SRC)): EXTRA := -I$(B)
$(call obj,$(QUEUE_SRC)): | $(B)/queue/schema_gen.h

$(B)/%.o: %.c Makefile
	@mkdir -p $(@D)
	@echo "  cc $<"
	@$(CC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

$(B)/libbase.a: $(call obj,$(BASE_SRC))
$(B)/libengine.a: $(call obj,$(ENGINE_SRC))
$(B)/libqueue.a: $(call obj,$(QUEUE_SRC))
$(B)/libjobs.a: $(call obj,$(JOBS_SRC))
$(B)/libtools.a: $(call obj,$(TOOL_LIB_SRC))
$(B)/lib%.a:
	@mkdir -p $(@D) && rm -f $@
	@$(AR) rcs $@ $^

$(B)/nocturne: $(call obj,$(BATCH_SRC)) $(LIBS)
	@$(CC) -o $@ $(call obj,$(BATCH_SRC)) $(LIBS) $(LDLIBS_ALL)
$(B)/tests/run: $(call obj,$(TEST_SRC)) $(BATCH_LIB_OBJ) $(LIBS)
	@$(CC) -o $@ $(call obj,$(TEST_SRC)) $(BATCH_LIB_OBJ) $(LIBS) $(LDLIBS_ALL)
# The program with a stand-in for the engine, for nights of thousands of jobs.
STANDIN := $(B)/tests/nocturne-standin
STANDIN_OBJ := $(call obj,$(BATCH_SRC) tests/fixtures/standin/engine.c)
STANDIN_LIBS := $(filter-out $(B)/libengine.a,$(LIBS))
$(STANDIN): $(STANDIN_OBJ) $(STANDIN_LIBS)
	@$(CC) -o $@ $(STANDIN_OBJ) $(STANDIN_LIBS) $(LDLIBS_ALL)
# What the tests give the program in the place of NVIDIA's library.
FAKE_NVML := $(B)/tests/nvml/libnvidia-ml.so.1
$(FAKE_NVML): tests/fixtures/nvml/nvml.c Makefile
	@mkdir -p $(@D)
	@$(CC) -std=c11 -D_GNU_SOURCE -O1 -g -fPIC -shared -Wl,-soname,$(@F) $(WARN) -o $@ $<
$(B)/tools/%: $(B)/tools/%.o $(B)/libtools.a $(LIBS)
	@$(CC) -o $@ $< $(B)/libtools.a $(LIBS) $(LDLIBS_ALL)
$(B)/bench/%: $(B)/bench/%.o $(LIBS)
	@$(CC) -o $@ $< $(LIBS) $(LDLIBS_ALL)

-include $(shell find $(B) -name '*.d' 2>/dev/null)
.SECONDARY: # else a first build deletes the objects of single programs, and the next makes them again

FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(FUZZ_SRC))
$(B)/fuzz/%: $(B)/tests/fuzz/%.o $(LIBS)
	@mkdir -p $(@D)
	@$(CC) -fsanitize=fuzzer -o $@ $< $(LIBS) $(LDLIBS_ALL)

fuzzers: $(FUZZERS)
tools: $(TOOLS)
benches: $(BENCHES)
tests: $(B)/tests/run $(B)/nocturne $(TOOLS) $(FAKE_NVML) $(STANDIN)

deps: ## install what is missing from the distribution's packages (NO_INSTALL=1: only say so)
	@sh tools/install-deps.sh $(if $(CROSS),$(ARCH),build)

EMULATOR ?= qemu-$(ARCH) -cpu max
RUN_TESTS = $(if $(CROSS),sh tests/emulated.sh $(B) "$(EMULATOR)",$(B)/tests/run)
test: deps ## build and pass the tests [T=substring]
	@$(MAKE) --no-print-directory tests
	$(RUN_TESTS) $(T)

test-long: deps ## the long suites too: kill loops, systemd, the whole golden set, that on aarch64's kernels too
	@$(MAKE) --no-print-directory tests
	NOCTURNE_GOLDEN="$${NOCTURNE_GOLDEN:-$(wildcard $(CURDIR)/../shared/golden)}" $(RUN_TESTS) --long $(T)
	$(if $(CROSS),,@$(MAKE) --no-print-directory ARCH=aarch64 test-long T="$(or $(T),golden_logits_whole_set_neon)")
	$(if $(CROSS)$(T),,@$(MAKE) --no-print-directory vm-test-systemd)

test-aarch64: ## the tests built for aarch64, under an emulator elsewhere [T=substring] [EMULATOR="qemu-aarch64 -cpu max"]
	@$(MAKE) --no-print-directory ARCH=aarch64 test

asan tsan: deps ## the tests under sanitizers: addresses and undefined behaviour, threads [T=substring]
	@$(MAKE) --no-print-directory FLAVOUR=$@ tests
	build/$@/tests/run $(T)

cli-test: deps ## command-line transcripts (tests/cli)
	@$(MAKE) --no-print-directory $(B)/nocturne $(TOOLS) $(FAKE_NVML)
	sh tests/cli/run.sh $(T)

vm-test: deps ## control groups v2 and pressure for real, in an emulated machine (tests/vm) [T=substring] [VERBOSE=1]
	@sh tools/install-deps.sh vm || :
	@$(MAKE) --no-print-directory tests
	@VERBOSE=$(VERBOSE) sh tests/vm/cgroup.sh $(T)

vm-test-systemd: deps ## the service, its timer and scopes under systemd, in an emulated machine [T=substring] [VERBOSE=1]
	@sh tools/install-deps.sh vm || :
	@$(MAKE) --no-print-directory all tests
	@VERBOSE=$(VERBOSE) sh tests/vm/systemd.sh $(T)

demo: deps ## the main job on real input: build, fetch a small model, summarise examples/ [MODEL=file.gguf]
	@$(MAKE) --no-print-directory all
	@sh examples/demo.sh "$(or $(MODEL),$$(sh tools/get-demo-model.sh))"

# Threads of benchmarks spin as little as the program's do (batch/main.c).
bench bench-kernels: export GOMP_SPINCOUNT := 1000
bench: benches ## build the benchmarks and run the tokens/s one [MODEL=file.gguf]
	$(B)/bench/tokens --header "$(or $(MODEL),$$(sh tools/get-demo-model.sh))"

bench-kernels: $(B)/bench/kernels ## bytes and operations a second of every kernel and ISA, as CSV [ARGS="--threads 1 --isa avx2 --format Q4_K"]
	@$(B)/bench/kernels $(ARGS)

bench-replay: $(B)/bench/replay ## what each --expert-policy would read, and the optimum, as CSV [TRACE=file of nocturne trace] [ARGS=--cost]
	@$(B)/bench/replay $(TRACE) $(ARGS)

bench-models: $(B)/tools/mkmodel ## write the 1 GB models of bench-peer MODELS=all to $BENCH_MODELS (~/.cache/nocturne/bench)
	@sh bench/models.sh $(B)/tools/mkmodel

bench-peer: benches ## beside llama.cpp, interleaved: PEER=folder of its programs [MODEL=|MODELS=all] [REPEATS=5] [ISA=]
ifeq ($(MODELS),all)
	@SECONDS_A_MODEL=$${SECONDS_A_MODEL:-150} REPEATS=$(or $(REPEATS),5) ISA=$(ISA) sh bench/peer.sh "$(PEER)" \
	  "$$(sh tools/get-demo-model.sh)" $$($(MAKE) -s --no-print-directory bench-models)
else
	@REPEATS=$(or $(REPEATS),5) ISA=$(ISA) sh bench/peer.sh "$(PEER)" "$(or $(MODEL),$$(sh tools/get-demo-model.sh))"
endif

bench-out-of-core: benches tools ## a model larger than memory [SIZE=8G PEER=folder REPEATS=3 BUDGETS="4.5 2 all"; bench/out-of-core.py says more]
	@python3 bench/out-of-core.py $(B)

eval-peer: all ## perplexity beside llama.cpp: PEER=folder of its programs [MODEL=]
	sh bench/perplexity.sh "$(PEER)" "$(or $(MODEL),$$(sh tools/get-demo-model.sh))"

lint: export LINT_CFLAGS := $(CFLAGS_ALL)
lint: $(B)/queue/schema_gen.h ## layers, sizes, banned calls, format, clang-tidy, cppcheck [STAGE=name]
	@sh tools/install-deps.sh lint aarch64
	@sh tests/lint/run.sh $(STAGE)

fuzz: deps ## every parser against mutated input [T=target] [SECONDS=60 for each]
	@sh tools/install-deps.sh lint
	@$(MAKE) --no-print-directory FLAVOUR=fuzz fuzzers
	@sh tests/fuzz/run.sh $(or $(SECONDS),60) $(T)

install: all ## program, manual page, units, documents and licence below PREFIX (/usr/local) [DESTDIR=]
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/doc/nocturne
	install -m 755 build/nocturne $(DESTDIR)$(PREFIX)/bin/nocturne
	install -m 644 LICENSE $(wildcard docs/*.md) $(DESTDIR)$(PREFIX)/share/doc/nocturne
	$(foreach page,$(wildcard packaging/man/*.1),install -D -m 644 $(page) \
	  $(DESTDIR)$(PREFIX)/share/man/man1/$(notdir $(page)) &&) :
	sh packaging/systemd/install.sh "$(DESTDIR)" "$(PREFIX)"

clean: ## remove build/
	rm -rf build
