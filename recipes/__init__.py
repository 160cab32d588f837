"""Programs that prepare and combine trainings; each runs by itself."""
