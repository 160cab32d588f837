"""What runs on several ranks: `worlds` starts them; the other files hold the jobs that a world runs.

`sharded_laws` (on `random_cases`), `sharded_behaviour`, `failing_ranks`, `watched_models`.
"""
