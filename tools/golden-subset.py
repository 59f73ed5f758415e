#!/usr/bin/env python3
"""golden-subset.py FROM TO: the part of the golden data that the repository carries.

FROM is the whole set, TO (tests/fixtures/golden) is written anew in the same layout, with manifests
that list only what is there: every architecture and nearly every weight format once, within the budget below.
Only the standard library is used.
"""
import json
import os
import shutil
import sys

BUDGET_BYTES = 12 << 20

# Q4_K, Q5_0, Q6_K and Q8_0 are in the Q4_K_M mixtures, Q5_1 is in llama.Q5_K, IQ4_NL in the IQ ones,
# IQ2_XXS in qwen2.IQ1_S.
# F32 is in the routers; kimi-k3-deep.BF16 is the one whose intermediate results are here, too.
# No golden of logits here: F32 and F16 matrices (1.5 MB and more; the whole set has them), NVFP4, Q1_0, Q2_0.
MODELS = ["llama." + t for t in ("Q4_0", "Q4_1", "Q2_K", "Q3_K", "Q5_K", "IQ1_S", "IQ1_M", "IQ2_XS", "IQ2_S",
                                 "IQ3_XXS", "IQ3_S", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4")] + [
    "qwen2.Q4_K_M", "qwen2.IQ1_S", "qwen3.Q4_K_M", "qwen3moe.IQ1_S_exps", "deepseek2.IQ1_S_exps",
    "kimi-linear.IQ1_S_exps", "kimi-k3.IQ1_S", "kimi-k3-deep.BF16"]
DEQUANT = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
           "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS",
           "TQ1_0", "TQ2_0", "MXFP4", "NVFP4", "Q1_0", "Q2_0"]
TOKENIZERS = ["llama-bpe", "qwen2", "gpt-2", "smollm", "default", "spm", "kimi-k2", "deepseek-v3", "deepseek-llm",
              "qwen35"]
SMOLLM2_CASES = ["capital"]


def copy(source, target, name):
    """One file, named as the manifest names it."""
    os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
    shutil.copyfile(os.path.join(source, name), os.path.join(target, name))


def dump_lists(path, top):
    """Lists with an entry a line, so that a change shows as the lines it is."""
    with open(path, "w") as out:
        fields = []
        for key, value in top.items():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                lines = ",\n".join(json.dumps(v, separators=(",", ":")) for v in value)
                fields.append("%s: [\n%s\n]" % (json.dumps(key), lines))
            else:
                fields.append("%s: %s" % (json.dumps(key), json.dumps(value)))
        out.write("{\n" + ",\n".join(fields) + "\n}\n")


def subset_main(source, target):
    with open(os.path.join(source, "manifest.json")) as f:
        top = json.load(f)
    top["models"] = [m for m in top["models"] if m["name"] in MODELS]
    top["dequant"] = [d for d in top["dequant"] if d["type"] in DEQUANT]
    top["tokenizers"] = [t for t in top["tokenizers"] if t["pre"] in TOKENIZERS]
    top["traces"] = [t for t in top["traces"] if os.path.basename(t["model"]) in {m + ".gguf" for m in MODELS}]
    if sorted(m["name"] for m in top["models"]) != sorted(MODELS):
        sys.exit("a model of the list is not in the manifest")
    for model in top["models"]:
        copy(source, target, model["file"])
        for sequence in model["sequences"]:
            copy(source, target, sequence["logits_default"])
            copy(source, target, sequence["logits_exact"])
    for trace in top["traces"]:
        shutil.copytree(os.path.join(source, trace["dir"]), os.path.join(target, trace["dir"]))
    for entry in top["dequant"]:
        copy(source, target, entry["raw"])
        copy(source, target, entry["f32"])
    for pre in TOKENIZERS:
        copy(source, target, "tok/%s.json" % pre)
        copy(source, target, "tok/vocab-%s.gguf" % pre)
    dump_lists(os.path.join(target, "manifest.json"), top)


def subset_smollm2(source, target):
    with open(os.path.join(source, "smollm2", "manifest.json")) as f:
        top = json.load(f)
    top["cases"] = {name: top["cases"][name] for name in SMOLLM2_CASES}
    for name in SMOLLM2_CASES:
        copy(source, target, "smollm2/%s.exact.npy" % name)
    with open(os.path.join(target, "smollm2", "manifest.json"), "w") as out:
        json.dump(top, out, ensure_ascii=False, separators=(",", ": "), indent=None)
        out.write("\n")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = sys.argv[1:]
    for folder in ("dequant", "logits", "models", "smollm2", "tok", "trace"):  # README.md stays
        shutil.rmtree(os.path.join(target, folder), ignore_errors=True)
    subset_main(source, target)
    subset_smollm2(source, target)
    total = sum(os.path.getsize(os.path.join(folder, name))
                for folder, _, names in os.walk(target) for name in names)
    print("%s: %d bytes, limit %d" % (target, total, BUDGET_BYTES))
    if total > BUDGET_BYTES:
        sys.exit(1)


if __name__ == "__main__":
    main()
