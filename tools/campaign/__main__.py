"""Run one area of the campaign for a given time and print its findings; exit with status 1 if there are any."""

import argparse
import sys
import warnings

import torch
from tools.campaign.areas import AREAS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.campaign", description=__doc__)
    parser.add_argument("area", choices=AREAS)
    parser.add_argument("--minutes", type=float, default=30.0, help="processor time of this process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run one case, with its traceback")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    area = AREAS[arguments.area]
    if arguments.only is not None:
        case = area.case(arguments.seed, arguments.only)
        print(case)
        case.judge()
        return 0
    found = []
    for finding in area.run(arguments.seed, minutes=arguments.minutes):
        found.append(finding is not None)
        if finding is not None:
            print(finding, flush=True)
    print(f"{area.name}: {len(found)} cases of seed {arguments.seed}, {sum(found)} wrong")
    return int(any(found))


if __name__ == "__main__":
    sys.exit(main())
