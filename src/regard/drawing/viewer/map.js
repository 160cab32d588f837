// A stand-in until the map itself is here.
