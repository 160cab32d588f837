"""Models that vLLM serves: `served`, and `served_in_processes`, a program that a test starts."""
