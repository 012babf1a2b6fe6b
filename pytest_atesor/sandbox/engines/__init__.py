"""The container engines that we know, one module each; ``cli`` is what they share."""
