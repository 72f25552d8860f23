"""tomserve: Theory-of-Mind evaluation of language models behind vLLM or any OpenAI-compatible endpoint."""
