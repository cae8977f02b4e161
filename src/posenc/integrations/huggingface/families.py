"""The table of families: facts per ``model_type``, checked against transformers by running a tiny model of each."""

from dataclasses import replace

from posenc.encodings.axes import chunked, first_last, strided
from posenc.integrations.huggingface.family import Family


def beside(neighbours: int) -> int:
    """A window that counts neighbours alone."""
    return neighbours + 1


def halved(both: int) -> int:
    """A window of both sides, the token itself among those behind."""
    return (both + 1) // 2


def unseen(window: int) -> None:
    """A window that the family's code does not apply."""


def exclusive(both: int) -> int:
    """A window of both sides, whose ends are left out."""
    return both // 2 + 1


def inclusive(both: int) -> int:
    """The same, whose ends are seen: Gemma 4 widens it as Gemma 3 does, and then sees the ends too."""
    return both // 2 + 2


GEMMA3 = Family(
    both_sides=exclusive,
    local="rope_local_base_freq",
    pattern="sliding_window_pattern",
    defaults={
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
        "head_dim": 256,
        "num_attention_heads": 8,
        "max_position_embeddings": 131_072,
        "sliding_window_pattern": 6,
    },
)
MODERNBERT = Family(
    base="global_rope_theta",
    local="local_rope_theta",
    local_scaled=True,
    back=beside,
    pattern="global_attn_every_n_layers",
    first_full=0,
    defaults={"rope_theta": 160_000.0, "local_rope_theta": 10_000.0, "global_attn_every_n_layers": 3},
)
ALTERNATING = Family(pattern="sliding_window_pattern", fixed_pattern=2, defaults={"sliding_window_pattern": 2})
BY_DEPTH = ("num_hidden_layers",)
BETA = ("llama_4_scaling_beta", "max_position_embeddings")
PARTIAL = Family(partial="partial_rotary_factor")

FAMILIES: dict[str, Family] = {
    "llama": Family(),
    "mistral": Family(),
    "mixtral": Family(states_head_dim=True),
    "qwen2": Family(),
    "qwen3": Family(),
    "qwen2_moe": Family(),
    "qwen3_moe": Family(),
    "olmo2": Family(),
    "starcoder2": Family(),
    "granite": Family(),
    "gemma": Family(),
    "gemma2": ALTERNATING,
    "gemma3_text": GEMMA3,
    "modernbert": MODERNBERT,
    "olmo3": Family(local="rope_theta", local_base=500_000.0),
    "glm4": Family(pairing="interleaved", partial="partial_rotary_factor"),
    "exaone4": Family(pattern="sliding_window_pattern", still=True, defaults={"sliding_window_pattern": 4}),
    "gpt_oss": ALTERNATING,
    "smollm3": Family(turns="no_rope_layers", extra=("no_rope_layer_interval",)),
    "llama4_text": Family(
        pairing="interleaved",
        turns="no_rope_layers",
        scale="llama4",
        defaults={"attn_scale": 0.1, "floor_scale": 8192},
        extra=("no_rope_layer_interval",),
    ),
    "ministral3": Family(scale="ministral3", beside=BETA),
    "mistral4": Family(
        pairing="interleaved",
        head_dim="qk_rope_head_dim",
        scale="ministral3",
        beside=(*BETA, "partial_rotary_factor"),  # of the whole head, which turns in this slice only
        second_factor=True,
        otherwise="5.10.1",
        extra=("rope_interleave", "qk_rope_head_dim", "qk_nope_head_dim"),
    ),
    "beam": Family(scale="beam"),
    "laguna": Family(partial="partial_rotary_factor", silent_partial=1.0),
    "granite_swa": Family(bases="layer_rope_theta", derives=BY_DEPTH),
    "granitemoe_swa": Family(bases="layer_rope_theta", derives=BY_DEPTH),
    "muse_spark_text": Family(turns="layer_rope_theta", still_from_last=4, derives=BY_DEPTH, rescales=True),
    "muse_glimmer_text": Family(turns="layer_rope_theta", still_from_last=4, derives=BY_DEPTH, rescales=True),
    "granitemoehybrid": Family(switch="position_embedding_type", derives=("layers_block_type",)),
    "jamba": Family(kind="none"),
    "phi": PARTIAL,
    "phi3": Family(
        partial="partial_rotary_factor", silent_partial=1.0, extra=("original_max_position_embeddings",)
    ),
    "stablelm": PARTIAL,
    "gpt_neox": Family(base="rotary_emb_base", partial="rotary_pct"),
    "gptj": Family(
        pairing="interleaved",
        length="n_positions",
        heads="n_head",
        width="n_embd",
        layers="n_layer",
        rotary_dim="rotary_dim",
        fixed_base=10_000.0,
        extra=("rotary",),
    ),
    "cohere": Family(pairing="interleaved"),
    "cohere2": Family(
        pairing="interleaved",
        pattern="sliding_window_pattern",
        still=True,
        defaults={"sliding_window_pattern": 4},
    ),
    "deepseek_v3": Family(
        pairing="interleaved",
        head_dim="qk_rope_head_dim",
        second_factor=True,
        extra=("rope_interleave", "qk_rope_head_dim", "qk_nope_head_dim"),
    ),
    "falcon": Family(
        defaults={"rope_theta": 10_000.0, "max_position_embeddings": 2048}, extra=("alibi", "alibi_bias_max")
    ),
    "bloom": Family(
        kind="alibi",
        heads="n_head",
        layers="n_layer",
        length="seq_length",
        defaults={"seq_length": 2048},
        extra=("offset_alibi",),  # of the training code; no effect on the numbers
    ),
    "mpt": Family(
        kind="alibi",
        heads="n_heads",
        width="d_model",
        layers="n_layers",
        length="max_seq_len",
        extra=("alibi", "alibi_bias_max"),
    ),
    "gpt2": Family(kind="learned", length="n_positions", heads="n_head", width="n_embd", layers="n_layer"),
}

TABLE = Family(kind="learned", extra=("position_embedding_type",))
BART = Family(
    kind="learned",
    heads="encoder_attention_heads",
    width="d_model",
    layers="encoder_layers",
    decoder="decoder_layers",
)
T5 = Family(
    kind="t5",
    heads="num_heads",
    width="d_model",
    layers="num_layers",
    decoder="num_decoder_layers",
    length="n_positions",
    defaults={"n_positions": 512},
    extra=("relative_attention_num_buckets", "relative_attention_max_distance"),
)
INTERLEAVED = Family(pairing="interleaved")
SLICE = Family(pairing="interleaved", head_dim="qk_rope_head_dim", extra=("qk_rope_head_dim", "qk_nope_head_dim"))
GEMMA4 = Family(
    both_sides=inclusive,
    full_head_dim="global_head_dim",
    defaults={"global_head_dim": 512},
    extra=("per_layer_config",),
)
MROPE = Family(axes=chunked, sections=(16, 24, 24), beside=("mrope_section", "mrope_interleaved"))
STRIDED = replace(MROPE, axes=strided, sections=(24, 20, 20))
ERNIE_VL = replace(
    MROPE,
    pairing="interleaved",
    axes=lambda rows, columns, time: first_last(time, rows, columns),
    sections=(22, 22, 20),
)
GRID = Family(kind="learned-grid")
TOWER = Family(defaults={"rope_theta": 10_000.0}, layout="qwen-vl-vision")
"""A tower that sees; its base was in its code before transformers 5.23."""
BLOCKS = replace(TOWER, heads="num_heads", layers="depth")
GLM4V = replace(MROPE, sections=(8, 12, 12), partial="partial_rotary_factor", silent_partial=1.0)
ALIKE: tuple[tuple[Family, str], ...] = (
    (Family(), "arcee apertus aria_text bitnet diffllama doge emu3_text_model esmc eurobert flex_olmo"),
    (Family(), "gpt_neox_japanese granite4_vision_text granite_docling_text granitemoe granitemoeshared gte"),
    (Family(), "higgs_audio_v2 hy_v3 hyperclovax dia_encoder internlm3 iquestcoder jais2 jina_embeddings_v3"),
    (Family(), "minimax_m2 mllama_text_model nomic_bert olmo olmoe phimoe seed_oss solar_open mellum"),
    (Family(derives=BY_DEPTH), "cwm minimax olmo_hybrid vaultgemma"),
    (Family(head_dim=None, derives=("sliding_window",)), "unlimited_ocr_text"),
    (Family(derives=("full_attn_idxs",)), "lfm2"),
    (replace(PARTIAL, derives=("full_attention_interval",)), "qwen3_next"),
    (Family(head_dim="qk_rope_head_dim", extra=("qk_rope_head_dim", "qk_nope_head_dim")), "minicpm3 hy_v4"),
    (PARTIAL, "nemotron glm4_moe persimmon zaya mimo_v2_flash phi4_multimodal"),
    (PARTIAL, "glmasr_encoder nemotron3_diarization_audio nemotron3_5_transcribe_asr_audio"),
    (
        replace(
            PARTIAL,
            pairing="interleaved",
            heads="encoder_num_attention_heads",
            layers="encoder_num_hidden_layers",
            decoder="decoder_num_hidden_layers",
            extra=("decoder_num_attention_heads",),
        ),
        "moonshine",
    ),
    (Family(head_dim="kv_channels"), "jetmoe"),
    (replace(MODERNBERT, back=int, extra=("local_attention", "sliding_window")), "modernbert-decoder"),
    (replace(MODERNBERT, extra=("local_attention",)), "ultrabert"),
    (Family(pairing="interleaved", back=beside, rescales=True), "openai_privacy_filter"),
    (Family(), "minimax_m3_vl_text falcon_h1 gemma3n_text lfm3 ministral lfm2_moe dots1"),
    (Family(back=halved), "t5gemma2_text"),
    (Family(back=unseen), "moshi"),
    (Family(), "step3p5"),
    (GEMMA4, "gemma4_text gemma4_unified_text"),
    (replace(GEMMA4, back=beside), "embedding_gemma2_text"),
    (replace(PARTIAL, attends="attn_layer_indices", otherwise="5.10.1"), "bamba"),
    (SLICE, "axk2"),
    (replace(SLICE, beside=("partial_rotary_factor",)), "dots3_note_text"),
    (replace(SLICE, length="model_max_length", derives=("layer_group_size",)), "bailing_hybrid"),
    (Family(), "hunyuan_v1_dense hunyuan_v1_moe"),
    (Family(pairing="interleaved", fixed_base=10_000.0), "roformer"),
    (Family(), "csm evolla gradium_phonon_tts pocket_tts voxtral_realtime_encoder"),
    (INTERLEAVED, "ernie4_5 ernie4_5_moe helium"),
    (replace(INTERLEAVED, otherwise="5.10.1"), "blt_patcher"),
    (MROPE, "qwen2_vl_text qwen2_5_vl_text qwen2_5_omni_text paddleocr_vl_text"),
    (replace(MROPE, extra=("position_id_per_seconds",)), "qwen2_5_omni_talker"),
    (STRIDED, "qwen3_vl_text qwen3_vl_moe_text qwen3_omni_moe_text cosmos3_edge_text"),
    (
        replace(
            STRIDED, sections=(11, 11, 10), partial="partial_rotary_factor", derives=("full_attention_interval",)
        ),
        "qwen3_5_text qwen3_5_moe_text",
    ),
    (GLM4V, "glm4v_moe_text glm_image_text"),
    (replace(GLM4V, pairing="interleaved"), "glm4v_text glm_ocr_text"),
    (ERNIE_VL, "ernie4_5_vl_moe_text"),
    (replace(PARTIAL, pairing="interleaved"), "glm"),
    (FAMILIES["exaone4"], "exaone_moe"),
    (Family(pattern="global_attn_every_n_layers", still=True), "afmoe"),
    (Family(still=True, derives=BY_DEPTH), "flint kolibri1"),
    (replace(FAMILIES["cohere2"], derives=("first_k_dense_replace",)), "cohere2_moe"),
    (FAMILIES["deepseek_v3"], "axk1 deepseek_v32 glm4_moe_lite youtu"),
    (replace(FAMILIES["deepseek_v3"], otherwise="5.10.1"), "deepseek_v2 glm_moe_dsa"),
    (replace(FAMILIES["deepseek_v3"], layers="num_layers", rescales=True), "longcat_flash"),
    (FAMILIES["gptj"], "codegen"),
    (TABLE, "bert electra ernie aimv2_text_model albert align_text_model bert-generation big_bird"),
    (TABLE, "chinese_clip_text_model clip_text_model clipseg_text_model convbert dpr flava_text_model git"),
    (TABLE, "visual_bert groupvit_text_model biogpt opt megatron-bert metaclip_2_text_model mobilebert"),
    (TABLE, "rembert siglip_text_model siglip2_text_model splinter squeezebert xclip_text_model roc_bert"),
    (FAMILIES["gpt2"], "gpt_bigcode imagegpt openai-gpt"),
    (
        replace(TABLE, spare="pad_token_id"),
        "roberta camembert xlm-roberta data2vec-text ibert xlm-roberta-xl roberta-prelayernorm "
        "altclip_text_model bridgetower_text_model clap_text_model",
    ),
    (BART, "bigbird_pegasus fsmt bart blenderbot-small blenderbot mbart mvp plbart"),
    (
        replace(
            BART,
            length="max_target_positions",
            source="max_source_positions",
            sinusoidal=("encoder",),
            spacing="tensor2tensor",
        ),
        "whisper",
    ),
    (replace(BART, sinusoidal=("encoder", "decoder")), "marian pegasus"),
    (
        Family(
            kind="deberta",
            extra=(
                *("relative_attention", "position_buckets", "max_relative_positions"),
                *("position_biased_input", "pos_att_type"),
            ),
        ),
        "deberta-v2",
    ),
    (T5, "t5 mt5"),
    (replace(T5, otherwise="5.10.1"), "switch_transformers"),
    (replace(T5, tables="each"), "umt5"),
    (GRID, "vit deit dinov2 dinov2_with_registers siglip_vision_model clip_vision_model chinese_clip_vision_model"),
    (GRID, "altclip_vision_model clipseg_vision_model metaclip_2_vision_model blip_vision_model git_vision_model"),
    (GRID, "blip_2_vision_model instructblip_vision_model instructblipvideo_vision_model janus_vision_model"),
    (
        GRID,
        "kosmos_2_vision_model phi4_multimodal_vision owlvit_vision_model owlv2_vision_model aimv2_vision_model",
    ),
    (GRID, "flava_image_model ijepa vit_msn dpt idefics2_vision pixio"),
    (replace(GRID, switch="use_absolute_position_embeddings"), "internvl_vision qianfan_ocr_vision"),
    (GRID, "idefics3_vision smolvlm_vision ovis2_vision granite_docling_vision tipsv2_vision_model mgp-str"),
    (replace(BLOCKS, width="embed_dim"), "qwen2_vl_vision"),
    (BLOCKS, "ernie4_5_vl_moe_vision glm_ocr_vision glm5_next_vision"),
    (replace(BLOCKS, extra=("window_size",)), "qwen2_5_vl_vision qwen2_5_omni_vision_encoder exaone4_5_vision"),
    (replace(BLOCKS, table=("num_position_embeddings",)), "qwen3_vl_vision qwen3_vl_moe_vision qwen3_5_vision"),
    (
        replace(BLOCKS, table=("num_position_embeddings",)),
        "qwen3_5_moe_vision qwen3_omni_moe_vision_encoder qwen4_exp_vision cohere_compass_vision",
    ),
    (replace(BLOCKS, table=TOWER.sides), "glm4v_vision glm4v_moe_vision"),
    (replace(TOWER, table=TOWER.sides), "paddleocr_vl_vision"),
    (TOWER, "video_llama_3_vision mlcd mlcd_vision_model dots3_note_vision_encoder"),
    (replace(TOWER, layout="pixtral"), "pixtral"),
    (
        replace(TOWER, layout="kimi-k2.5-vision", table=("pos_emb_height", "pos_emb_width")),
        "kimi_k25_vision",
    ),
    (
        replace(TOWER, layout="step3.7-vision", table=("pos_emb_height", "pos_emb_width")),
        "muse_spark_vision muse_glimmer_vision",
    ),
    (replace(TOWER, layout="minimax-m3-vision"), "minimax_m3_vl_vision"),
    (replace(TOWER, layout="step3.7-vision", table=TOWER.sides), "step3p5_vision"),
    (replace(TOWER, layout="dinov3", defaults={"rope_theta": 100.0}), "dinov3_vit sapiens2"),
)
"""Families that have all of a row in common, names separated by spaces."""
FAMILIES |= {name: family for family, names in ALIKE for name in names.split()}

ALIASES = {
    "gemma3": "gemma3_text",
    "llama4": "llama4_text",
    "muse_spark": "muse_spark_text",
    "muse_glimmer": "muse_glimmer_text",
}
"""Composite models, by the type of the language model inside."""

ATTRIBUTES = {
    "n_positions": "max_position_embeddings",
    "n_head": "num_attention_heads",
    "n_heads": "num_attention_heads",
    "n_embd": "hidden_size",
    "d_model": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_layers": "num_hidden_layers",
    "encoder_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
}
"""Older spellings and the standard ones that some saved configs have instead."""
