"""Robot trajectories from controls: position, velocity, acceleration and jerk, with every derivative."""

from gradlib.trajectory.state import JointState as JointState, JointTrajectory as JointTrajectory
from gradlib.trajectory.steps import (
    step_acceleration as step_acceleration,
    step_jerk as step_jerk,
    step_position as step_position,
    step_velocity as step_velocity,
)
