"""Laws of the hold, whatever comes and goes."""

from __future__ import annotations

from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from throttle.hold import Hold
from throttle.model import Admission, Amount, Limit, Target

WEIGHTS = {"a": 1.0, "b": 2.5, "c": 0.5}
LIMITS = {"main": Limit(database="main", operations=10.0, tenants=WEIGHTS)}
PUT = st.tuples(
    st.just("put"), st.sampled_from("abcd"), st.integers(0, 2), st.floats(0, 30)
)
TAKE = st.tuples(st.just("take"), st.integers(0, 5))
REMOVE = st.tuples(st.just("remove"), st.integers(0, 50))
STEPS = st.lists(st.one_of(PUT, PUT, TAKE, REMOVE), max_size=80)


class Item:
    """Something that waits."""

    def __init__(self, tenant: str, priority: int, cost: float, size: int) -> None:
        self.tenant = tenant
        self.priority = priority
        self.cost = cost
        self.size = size


@given(STEPS)
def test_all_come_once_in_order_and_are_counted(
    steps: list[tuple[object, ...]],
) -> None:
    """Each that waits is given once; in a tenant by priority, then by age."""
    hold: Hold[Item] = Hold(LIMITS, max_messages=10, max_bytes=1000)
    waiting: list[Item] = []
    for what, *rest in steps:
        if what == "put":
            tenant, priority, cost = rest
            assert isinstance(tenant, str)
            assert isinstance(priority, int)
            assert isinstance(cost, float)
            item = Item(tenant, priority, cost, len(waiting) + 1)
            waiting.append(item)
            hold.put(
                Target("main", tenant),
                item,
                size=item.size,
                priority=priority,
                cost=Amount(cost),
            )
        elif what == "remove":
            (number,) = rest
            assert isinstance(number, int)
            if waiting:
                item = waiting.pop(number % len(waiting))
                assert hold.remove(item)
        else:
            (left,) = rest
            assert isinstance(left, int)
            for _ in range(left):
                given_ = next(hold.take("main", _yes), None)
                if given_ is None:
                    assert not waiting
                    break
                mine = [one for one in waiting if one.tenant == given_.tenant]
                assert given_ is min(mine, key=lambda one: one.priority)
                waiting.remove(given_)
        seen = hold.waiting("main")
        assert [id(one) for one in hold.items()] == [id(one) for one in waiting]
        assert seen.count == len(hold) == len(waiting)
        assert seen.bytes == hold.bytes == sum(one.size for one in waiting)
        assert abs(seen.cost.operations - sum(one.cost for one in waiting)) < 1e-6
        assert seen.tenants == Counter(one.tenant for one in waiting)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.1, 20)), min_size=60),
    st.integers(1, 60),
)
def test_who_waits_all_the_time_gets_its_part(
    line: list[tuple[str, float]], turns: int
) -> None:
    """By cost over weight, no two differ by more than their dearest items."""
    hold: Hold[Item] = Hold(LIMITS, max_messages=10, max_bytes=1000)
    for tenant, cost in line:
        item = Item(tenant, 0, cost, 1)
        hold.put(Target("main", tenant), item, size=1, cost=Amount(cost))
    present = {tenant for tenant, _ in line}
    served: dict[str, float] = defaultdict(float)
    dearest = max(cost for _, cost in line)
    for _ in range(turns):
        if set(hold.waiting("main").tenants) != present:
            break
        item = next(hold.take("main", _yes))
        served[item.tenant] += item.cost / WEIGHTS[item.tenant]
        for one in present:
            for other in present:
                apart = dearest / WEIGHTS[one] + dearest / WEIGHTS[other]
                assert abs(served[one] - served[other]) <= apart + 1e-6


def _yes(_: Item) -> Admission:
    return Admission(True, 1.0, 0.0)
