"""Run one area of the campaign and print its findings; exit with status 1 if there are any."""

import argparse
import sys
import warnings
from contextlib import nullcontext

import torch
from tools.campaign.areas import AREAS
from tools.campaign.faults import FAULTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.campaign", description=__doc__)
    parser.add_argument("area", nargs="?", choices=AREAS, help="which; see --list")
    parser.add_argument("--minutes", type=float, default=30.0, help="processor time of this process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run one case, with its traceback")
    parser.add_argument("--most", type=int, default=10, help="stop after this many findings")
    parser.add_argument("--plant", choices=FAULTS, metavar="FAULT", help="first plant this fault; see --list")
    parser.add_argument("--list", action="store_true", help="list the areas and faults")
    arguments = parser.parse_args()
    if arguments.list or arguments.area is None:
        print(*(f"{area.name:10} {area.about}" for area in AREAS.values()), sep="\n")
        print(*(f"  {fault.name:32} caught by {fault.area}" for fault in FAULTS.values()), sep="\n")
        return 0
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    area = AREAS[arguments.area]
    cases = findings = 0
    with FAULTS[arguments.plant].plant() if arguments.plant else nullcontext():
        if arguments.only is not None:
            case = area.case(arguments.seed, arguments.only)
            print(case)
            case.judge()
            return 0
        for finding in area.run(arguments.seed, minutes=arguments.minutes):
            cases += 1
            if finding is not None:
                findings += 1
                print(finding, flush=True)
            if findings >= arguments.most:
                break
    print(f"{area.name}: {cases} cases of seed {arguments.seed}, {findings} wrong")
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
