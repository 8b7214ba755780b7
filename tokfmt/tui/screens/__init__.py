"""What lies over the browser for a moment: help, questions, lists."""
