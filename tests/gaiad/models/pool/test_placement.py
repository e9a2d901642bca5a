import itertools

import pytest

from gaiad.models.pool.making import Need, Resident, make_room, place_at_start

MIB = 2**20


def resident(name, mib, *, pinned=False, running=0, last_used=0.0):
    return Resident(name=name, bytes=mib * MIB, pinned=pinned, running=running, last_used=last_used)


def need(name, mib, *, pinned=False):
    return Need(name=name, bytes=mib * MIB, pinned=pinned)


def test_what_fits_beside_the_others_costs_nobody_a_place():
    room = make_room(need("lite", 400), [resident("prime", 600)], 1000 * MIB)
    assert (room.sleep, room.refusal) == ([], "")


def test_the_least_recently_used_idle_one_sleeps_first():
    loaded = [
        resident("new", 300, last_used=9),
        resident("old", 300, last_used=1),
        resident("middle", 300, last_used=5),
    ]
    assert make_room(need("lite", 300), loaded, 1000 * MIB).sleep == ["old"]
    assert make_room(need("lite", 500), loaded, 1000 * MIB).sleep == ["old", "middle"]


def test_nobody_sleeps_for_nothing_when_a_later_one_gives_all_the_room():
    loaded = [resident("small", 50, last_used=1), resident("large", 900, last_used=2)]
    assert make_room(need("lite", 800), loaded, 1000 * MIB).sleep == ["large"]


def test_pinned_and_answering_ones_stay_and_the_refusal_has_the_numbers():
    loaded = [resident("prime", 600, pinned=True), resident("code", 300, running=2)]
    room = make_room(need("lite", 500), loaded, 1000 * MIB)
    assert room.sleep == []
    assert not room.busy, "not even without the busy one would it fit beside the pinned one"
    for part in (
        "lite needs about 500 MiB",
        "1,000 MiB",
        "prime (pinned, 600 MiB)",
        "code (answering, 300 MiB)",
        "unpin",
    ):
        assert part in room.refusal
    assert "unpin" in room.refusal


def test_one_that_only_waits_for_a_busy_model_is_told_to_come_back():
    room = make_room(need("lite", 500), [resident("code", 800, running=1)], 1000 * MIB)
    assert room.busy
    assert "try again when it has finished" in room.refusal


def test_one_larger_than_the_whole_budget_is_refused_without_sending_anyone_to_sleep():
    room = make_room(need("huge", 2000), [resident("code", 800)], 1000 * MIB)
    assert (room.sleep, room.busy) == ([], False)
    assert "huge needs about 2,000 MiB and the budget is 1,000 MiB; raise models.memory_mib" in room.refusal


def test_at_start_pinned_models_come_first_then_the_order_given():
    load, asleep = place_at_start([need("a", 600), need("b", 500), need("c", 300, pinned=True)], 1000 * MIB)
    assert load == ["c", "a"]
    assert asleep == {"b": "needs about 500 MiB and 100 MiB of 1,000 MiB are left; it is loaded when it is asked for"}


def test_at_start_one_larger_than_the_whole_budget_is_told_that_it_never_fits():
    load, asleep = place_at_start([need("huge", 2000), need("a", 600)], 1000 * MIB)
    assert load == ["a"]
    assert "the budget is 1,000 MiB: it can never be loaded; raise models.memory_mib" in asleep["huge"]


@pytest.mark.parametrize("budget", [0, 100, 350, 700, 1000])
def test_for_any_mix_the_room_made_is_enough_or_refused(budget):
    sizes, flags = (100, 250), ((False, 0), (True, 0), (False, 1))
    for wanted, *others in itertools.product((90, 300), *(itertools.product(sizes, flags) for _ in range(3))):
        loaded = [
            resident(str(number), size, pinned=pinned, running=running, last_used=number)
            for number, (size, (pinned, running)) in enumerate(others)
        ]
        room = make_room(need("wanted", wanted), loaded, budget * MIB)
        left = [one for one in loaded if one.name not in room.sleep]
        asleep = [one for one in loaded if one.name in room.sleep]
        assert not any(one.pinned or one.running for one in asleep)
        fits = sum(one.bytes for one in left) + wanted * MIB <= budget * MIB
        assert fits != bool(room.refusal)
        assert not (room.refusal and room.sleep)
        if not room.refusal:
            for one in asleep:
                assert sum(o.bytes for o in left) + one.bytes + wanted * MIB > budget * MIB, "it slept for nothing"
