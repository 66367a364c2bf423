"""Robot trajectories from controls: position, velocity, acceleration and jerk, with every derivative."""

from gradlib.trajectory.bspline_step import step_bspline as step_bspline
from gradlib.trajectory.cost import smoothness_cost as smoothness_cost
from gradlib.trajectory.state import JointLimits as JointLimits, JointState as JointState, JointTrajectory as JointTrajectory
from gradlib.trajectory.steps import (
    step_acceleration as step_acceleration,
    step_jerk as step_jerk,
    step_position as step_position,
    step_velocity as step_velocity,
)
