"""The questions at the end of each chapter of the course: one source for the page and the terminal."""
