"""Power and energy: what a deployment draws on average, what must be provisioned for it, and joules per token.

First form. A GPU draws its loaded-idle floor while no step runs; while one runs, between the busy floor
and the full share of its TDP, in proportion to activity. The rest of the node draws a fixed part of its
provisioned power. Coefficients and their sources: ``hardware_db/power.yaml``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from planner.catalog import Accelerator, Node, catalog
from planner.catalog.model_spec import Strict
from planner.economics.defaults import Coefficient, read_defaults, shipped
from planner.economics.ratio import FloatArray, per
from planner.errors import InputError
from planner.units import KILO

FILE = "power.yaml"


class PowerModel(Strict):
    """Shares of TDP unless named otherwise."""

    loaded_idle_share_of_tdp: Coefficient
    busy_share_of_tdp: Coefficient
    full_share_of_tdp: Coefficient
    rest_of_node_share_of_tdp: Coefficient
    rest_of_node_draw_share: Coefficient
    pue: Coefficient


def power_model() -> PowerModel:
    """The coefficients: the user's own ``power.yaml`` where their catalogue folder has one, else the
    shipped ones.
    """
    mine = catalog().user_dir
    places = [shipped(FILE)]
    if mine is not None:
        places = [mine / "hardware_db" / FILE, mine / FILE, *places]
    return read_defaults(PowerModel, next(path for path in places if path.is_file()))


def activity(compute_utilisation: ArrayLike, kv_share: ArrayLike) -> FloatArray:
    """How hard a running step works a GPU, 0 to 1: compute utilisation plus KV's share of the memory traffic.

    Both in 0..1 (vllm-semantic-router fleet-sim power model: streaming weights alone is the busy floor).
    Their sum may pass 1, where the GPU is at its full share.
    """
    both = np.asarray(compute_utilisation, dtype=np.float64) + np.asarray(kv_share, dtype=np.float64)
    return np.minimum(both, 1.0)


def gpu_power_w(tdp_w: ArrayLike, busy: ArrayLike, activity_: ArrayLike, model: PowerModel) -> FloatArray:
    """Average draw of a GPU in W: ``busy`` is the part of time that a step runs, ``activity_`` how hard;
    both 0..1.
    """
    busy_, work = (np.asarray(v, dtype=np.float64) for v in (busy, activity_))
    for name, share in (("busy", busy_), ("activity", work)):
        if np.any((share < 0) | (share > 1)):
            raise InputError(name, float(np.nanmax(np.abs(share))), "between 0 and 1")
    idle, floor, full = (
        c.value for c in (model.loaded_idle_share_of_tdp, model.busy_share_of_tdp, model.full_share_of_tdp)
    )
    share = (1.0 - busy_) * idle + busy_ * (floor + (full - floor) * work)
    return np.asarray(tdp_w, dtype=np.float64) * share


@dataclass(frozen=True)
class NodePower:
    """Power per GPU of a node type in W; NaN where the accelerator's TDP is not sourced."""

    tdp_w: float
    rest_provisioned_w: float
    """CPUs, fans, NICs and switches, per GPU, as provisioned."""
    facility_provisioned_w: float
    """Utility power to provision per GPU, facility overhead included."""
    assumptions: tuple[str, ...]


def node_power(node: Node, accelerator: Accelerator, model: PowerModel) -> NodePower:
    """What a node type needs per GPU, from its datasheet as far as that is known."""
    tdp = accelerator.power_w.tdp
    if tdp is None:
        nan = float("nan")
        return NodePower(nan, nan, nan, (f"the TDP of {accelerator.id} is not known: no energy is computed",))
    assumptions = []
    if node.power.max_kw is not None:
        rest = max(0.0, node.power.max_kw * KILO / node.gpus - tdp)
    else:
        rest = tdp * model.rest_of_node_share_of_tdp.value
        assumptions.append(
            f"the maximum power of {node.id} is not known: {model.rest_of_node_share_of_tdp.value:g} x TDP is taken "
            "for the rest of the node"
        )
    if node.power.all_in_kw_per_gpu is not None:
        facility = node.power.all_in_kw_per_gpu * KILO  # with facility overhead: PUE is inside
    else:
        facility = (tdp + rest) * model.pue.value
        assumptions.append(f"facility overhead: PUE {model.pue.value:g} ({model.pue.source})")
    return NodePower(tdp, rest, facility, tuple(assumptions))


@dataclass(frozen=True)
class Energy:
    """Two different numbers: what is drawn on average, and what has to be provisioned; arrays."""

    average_w: FloatArray
    """Draw of the whole deployment at the meter."""
    provisioned_w: FloatArray
    joules_per_output_token: FloatArray
    """Average draw over the output rate; NaN where there is no output."""
    joules_per_token: FloatArray
    """The same over input and output tokens together."""


def energy(
    gpus: ArrayLike,
    busy: ArrayLike,
    activity_: ArrayLike,
    input_tokens_per_s: ArrayLike,
    output_tokens_per_s: ArrayLike,
    node: NodePower,
    model: PowerModel,
) -> Energy:
    """Power of ``gpus`` GPUs at a load, and energy per token of the whole deployment's rates. All broadcast.

    average = gpus x (GPU draw + draw of the rest of the node) x PUE; joules per token = average / tokens
    per second.
    """
    count = np.asarray(gpus, dtype=np.float64)
    rest = node.rest_provisioned_w * model.rest_of_node_draw_share.value
    average = count * (gpu_power_w(node.tdp_w, busy, activity_, model) + rest) * model.pue.value
    inputs, outputs = (np.asarray(v, dtype=np.float64) for v in (input_tokens_per_s, output_tokens_per_s))
    return Energy(
        average_w=average,
        provisioned_w=count * node.facility_provisioned_w,
        joules_per_output_token=per(average, outputs),
        joules_per_token=per(average, inputs + outputs),
    )
