# Only libllama and ggml are linked: llama.cpp's own command-line helpers stay out of the build.
set(LLAMA_BUILD_COMMON OFF)
