"""Why do two sides of an operator differ? Candidate arithmetic, tried on the recorded inputs."""
