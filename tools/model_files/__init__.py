"""Asks released model files of programs that serve models what they do with positions, on a CPU, under stand-ins.

    python tools/programs.py                           # fetch the releases
    python -m tools.model_files                        # ask all of them, and write what is kept
    python -m tools.model_files vllm 0.33.0 FILE       # one release, of one config.json: its answer as JSON

Of a release these are real: its model files, its rotary files, its config classes and the rule of the longest
input; everything else is a stand-in. The whole model of a config is built by the release's own registry, cut to two
periods of its layers. Then every module that owns an attention is run on noise at several positions, which says
whether the layer rotates and how its queries grow, and its rotary layer is given unit vectors, which says the
frequencies, the factor, the pairs and the axes. The scale, the window, the softcap, sinks and ALiBi are what the
attention was made with.
"""
