"""Small programs that use regard; each runs by itself."""
