"""Engine settings: a planned worker in the flags of vLLM, SGLang or TensorRT-LLM."""
