"""Run the released model files of serving programs on a CPU, with stubs, to see what they do with positions.

    python tools/programs.py                           # fetch the releases
    python -m tools.model_files                        # run all of them, and write the stored results
    python -m tools.model_files vllm 0.33.0 FILE       # run one release on one config.json; prints JSON

A release's model files, rotary files, config classes and the rule for its longest input are real; everything else
is a stub. The release's own registry builds the model of a config, cut to two periods of its layers. Every module
that owns an attention is then run on noise at several positions, which shows whether the layer rotates and how its
queries grow. Its rotary layer is run on unit vectors, which shows frequencies, factor, pairs and axes. The scale,
window, softcap, sinks and ALiBi are the arguments that the attention was built with.
"""
