"""Arrays and words as something to look at. This room takes numbers and text; it knows no model and no tensor."""
