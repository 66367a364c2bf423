"""Robot trajectories from controls: position, velocity, acceleration and jerk, with every derivative. README.md says more."""

from gradlib.backend.names import suggest_names as _suggest_names
from gradlib.trajectory import batching as batching
from gradlib.trajectory.bspline import step_bspline as step_bspline
from gradlib.trajectory.chain import (
    step_acceleration as step_acceleration,
    step_jerk as step_jerk,
    step_position as step_position,
    step_velocity as step_velocity,
)
from gradlib.trajectory.compat import (
    euler_integrate as euler_integrate,
    jit_backward_pos_clique as jit_backward_pos_clique,
    jit_backward_pos_clique_contiguous as jit_backward_pos_clique_contiguous,
    jit_tensor_step_pos_clique as jit_tensor_step_pos_clique,
    jit_tensor_step_pos_clique_contiguous as jit_tensor_step_pos_clique_contiguous,
    step_acc_semi_euler as step_acc_semi_euler,
    tensor_step_acc as tensor_step_acc,
    tensor_step_acc_semi_euler as tensor_step_acc_semi_euler,
    tensor_step_jerk as tensor_step_jerk,
    tensor_step_pos as tensor_step_pos,
    tensor_step_pos_clique as tensor_step_pos_clique,
    tensor_step_vel as tensor_step_vel,
)
from gradlib.trajectory.compiled import use_numba as use_numba
from gradlib.trajectory.cost import (
    BoundsCost as BoundsCost,
    EnergyCost as EnergyCost,
    MotionCost as MotionCost,
    PathLengthCost as PathLengthCost,
    TerminalCost as TerminalCost,
    TimeCost as TimeCost,
    TrackingCost as TrackingCost,
)
from gradlib.trajectory.functions import (
    AccelerationTensorStepIdxKernel as AccelerationTensorStepIdxKernel,
    AccelerationTensorStepKernel as AccelerationTensorStepKernel,
    CliqueTensorStep as CliqueTensorStep,
    CliqueTensorStepCentralDifferenceKernel as CliqueTensorStepCentralDifferenceKernel,
    CliqueTensorStepCoalesceKernel as CliqueTensorStepCoalesceKernel,
    CliqueTensorStepIdxCentralDifferenceKernel as CliqueTensorStepIdxCentralDifferenceKernel,
    CliqueTensorStepIdxKernel as CliqueTensorStepIdxKernel,
    CliqueTensorStepKernel as CliqueTensorStepKernel,
)
from gradlib.trajectory.many import plan_many as plan_many
from gradlib.trajectory.matrices import (
    action_interpolate_kernel as action_interpolate_kernel,
    build_clique_matrix as build_clique_matrix,
    build_fd_matrix as build_fd_matrix,
    build_int_matrix as build_int_matrix,
    build_start_state_mask as build_start_state_mask,
    interpolate_kernel as interpolate_kernel,
    tensor_linspace as tensor_linspace,
)
from gradlib.trajectory.smoothness import smoothness_cost as smoothness_cost
from gradlib.trajectory.state import (
    JointLimits as JointLimits,
    JointState as JointState,
    JointTrajectory as JointTrajectory,
    Plans as Plans,
)

_suggest_names(__name__)
