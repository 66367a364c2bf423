"""Robot trajectories from controls: position, velocity, acceleration and jerk, with every derivative."""
