"""What is trained: ways, schemes, seeds, and how long; each run is a job, a plain dictionary."""

NATIVE = "native"
WAYS = ("ddp", "fsdp2", "zero1", "diloco")
TITLES = {"ddp": "DDP", "fsdp2": "FSDP2", "zero1": "ZeRO-1, in place", "diloco": "DiLoCo"}
# Whose validation is compressed calls, too: later ones then draw other random numbers.
GATHER_TO_VALIDATE = ("fsdp2",)

_PLAIN = ("bf16", "fp8e4m3", "mxfp4", "int8", "int8:round=stochastic", "int4",
          "int4:round=stochastic", "int3", "int3:round=stochastic", "int2", "int2:round=stochastic",
          "auto:error=0.12")
# What auto goes by; the profile whose links are the slowest.
PROFILE = "v100-8x-10gbit"
# What the papers compare their systems with, and what these are made of. Chosen by name.
PAPERS = {
    "weights4": "allgather -> int4:block=2048",
    "weights4-delta": "allgather -> int4:block=2048,delta=inplace",
    "weights4-shadow": "allgather -> int4:block=2048,delta=shadow",
    "gradients4": "reducescatter,allreduce -> int4:block=128,round=stochastic",
    "gradients3": "reducescatter,allreduce -> int3:block=128,round=stochastic",
    "gradients2": "reducescatter,allreduce -> int2:block=128,round=stochastic",
    "gradients4-twolevel": "reducescatter,allreduce -> int4:block=128,round=stochastic,intra=int8",
    "gradients4-twolevel-hadamard":
        "reducescatter,allreduce -> int4:block=128,round=stochastic,intra=int8,hadamard=32",
    "w4g4-uniform": "allgather -> minmax4:block=1024; "
                    "reducescatter,allreduce -> minmax4:block=1024,round=stochastic",
    "w4g4-stochastic": "allgather,reducescatter,allreduce -> learned4:block=1024,round=stochastic",
    "w4g4-uniform-stochastic":
        "allgather,reducescatter,allreduce -> minmax4:block=1024,round=stochastic",
}
# Global-QSGD's quantizers with one scale for a call, of which terse has none: hooks of DDP, which
# communicate natively.
ONE_SCALE = {"linear8-one-scale": "linear8", "exp8-one-scale": "exp8"}
# After a scheme: norms and biases travel as they are, as QSDP has it. With FSDP2.
EXACT_NORMS = "+exact-norms"
# Those that differ: qsdp-w6g4 and qsdp-w4g4 do so in weights alone, sdp4bit is made for buffers
# that stay and sdp4bit-fsdp for those that do not, and cgx compresses AllReduce alone. Weights are
# fp32 here: those that are gathered are compressed by the variants for that.
_PRESETS = {
    "ddp": ("safe", "fast", "qsdp", "qsdp-w4g4", "sdp4bit", "zeropp", "global-qsgd",
            "global-qsgd-exp", "cgx", "ncclx"),
    "fsdp2": ("safe-fsdp32", "fast-fsdp32", "qsdp-fsdp32", "qsdp-w6g4-fsdp32", "qsdp-w4g4-fsdp32",
              "sdp4bit-fsdp32", "zeropp-fsdp32", "global-qsgd", "global-qsgd-exp", "ncclx"),
    "zero1": ("safe-fsdp32", "fast-fsdp32", "qsdp-fsdp32", "qsdp-w6g4-fsdp32", "qsdp-w4g4-fsdp32",
              "sdp4bit-zero32", "zeropp-fsdp32", "global-qsgd", "global-qsgd-exp", "ncclx"),
    "diloco": ("safe", "fast", "qsdp", "qsdp-w4g4", "sdp4bit", "zeropp", "global-qsgd",
               "global-qsgd-exp", "cgx", "ncclx"),
}
_QUICK = {"ddp": ("safe", "fast", "sdp4bit", "int2"), "fsdp2": ("fast-fsdp32",),
          "zero1": ("sdp4bit-zero32",), "diloco": ("int4",)}

MODELS = {"gpt": {"kind": "gpt", "layers": 4, "width": 128, "heads": 4, "context": 128},
          "conv": {"kind": "conv", "layers": 8, "width": 128, "context": 128}}
RECIPE = {"steps": 300, "batch": 4, "rate": 1e-3, "weight_decay": 0.1, "clip": 1.0,
          "weights": "float32", "apart": 32, "validate_every": 50, "windows": 8,
          "last_windows": 64}
RANKS = 4
SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)
RATES, QUICK_RATES = (10**9, 10**8), (10**9,)
QUICK_STEPS = 60


def usual_schemes(way, quick):
    return _QUICK[way] if quick else _PRESETS[way] + _PLAIN


def schemes(way, options):
    """Native, and what is compared with it."""
    chosen = options.schemes or usual_schemes(way, options.quick)
    return (NATIVE, *(scheme for scheme in chosen if scheme != NATIVE))


def rules(scheme):
    """Those that terse goes by; NATIVE without it."""
    if scheme in ONE_SCALE:
        return NATIVE
    plain = scheme.removesuffix(EXACT_NORMS)
    return PAPERS.get(plain, plain)


def job(way, scheme, seed, options, text):
    return {"way": way, "scheme": scheme, "seed": seed, "ranks": RANKS, "nodes": options.nodes,
            "rules": rules(scheme), "exact_norms": scheme.endswith(EXACT_NORMS),
            "dithering": ONE_SCALE.get(scheme),
            "model": options.model, "recipe": options.recipe, "text": text}


def trainings(options, text):
    """Seed by seed, and each of them in all schemes: so pairs are complete when time runs out."""
    return [job(way, scheme, seed, options, text) for way in options.ways
            for seed in options.seeds for scheme in schemes(way, options)]


def timings(options, text):
    """A few steps of the first seed, after some. Of DiLoCo a round, of which only the last step sends, after
    another: a communicator's first call of a kind takes longer."""
    found = []
    for way in options.ways:
        first, count = (2, 10) if way != "diloco" else 2 * (options.recipe["apart"],)
        found += [{**job(way, scheme, options.seeds[0], options, text), "measure": [first, count],
                   "rate": rate} for rate in options.rates for scheme in schemes(way, options)]
    return found
