"""The data sets of the paper, each with its address, its checksum and what to beware of.

The ten tables of treforevans/uci_datasets carry the checksum that the repository itself states for them, in the Git
LFS pointers of its commit d5061ad. The files of pol, bike, elevators, kin40k, protein, keggdirected and keggundirected
were compared with it and agree byte for byte; those of 3droad, song and buzz were not at hand. The other four sets are
not public in the form of one file whose checksum is known, and come by hand.
"""

import difflib
from typing import Any

from tightgp.datasets.source import Source

_EVANS = "https://raw.githubusercontent.com/treforevans/uci_datasets/master/uci_datasets"
_LFS = "https://media.githubusercontent.com/media/treforevans/uci_datasets/d5061ad458be7be9b2d7c19af525c57e2b3715ef"
_POINTER = "as the repository's Git LFS pointer has it (commit d5061ad)"
_COMPARED = f"{_POINTER}, and compared with the file"
_CREDIT = "Prepared by Trefor Evans, github.com/treforevans/uci_datasets (MIT), after Yang et al. (2015)."
_CENTRED = "Every column is mean-centred and rounded to five digits, not scaled."


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"x{i + 1}" for i in range(count))


def _evans(name: str, rows: int, inputs: int, sha256: str, about: str, target: str, credit: str = "", **more) -> Source:
    """A table of treforevans/uci_datasets."""
    settings: dict[str, Any] = {"url": f"{_EVANS}/{name}/data.csv.gz", "checked": _COMPARED, "notes": (), **more}
    settings["notes"] = (_CENTRED, *settings["notes"])
    return Source(
        name=name,
        about=about,
        file=f"uci/{name}.csv.gz",
        rows=rows,
        inputs=_numbered(inputs),
        target=target,
        sha256=sha256,
        page="https://github.com/treforevans/uci_datasets",
        credit=f"{credit} {_CREDIT}".strip(),
        **settings,
    )


def _sources() -> tuple[Source, ...]:
    return (
        Source(
            name="snelson",
            about="the 1-D toy set of Snelson and Ghahramani; the paper trains on rows 0, 5, ..., 195",
            file="snelson.csv",
            rows=200,
            inputs=("x",),
            target="y",
            form="named",
            page="https://github.com/thjashin/solvegp",
            by_hand=(
                "take train_inputs and train_outputs from data/snelson of https://github.com/thjashin/solvegp (or from "
                "http://www.gatsby.ucl.ac.uk/~snelson/SPGP_dist.zip) and join them under the header x,y:\n"
                "  (echo x,y; paste -d, train_inputs train_outputs) > snelson.csv"
            ),
            credit="E. Snelson and Z. Ghahramani, Sparse Gaussian processes using pseudo-inputs, NIPS 2006.",
            notes=("Public as two columns of numbers, not as this file, so there is no checksum of a download.",),
        ),
        Source(
            name="nybikes",
            about="bicycles a day on Brooklyn Bridge in April 2016, by the day's temperatures",
            file="nyc-east-river-bicycle-counts.csv",
            rows=210,
            inputs=("High Temp", "Low Temp"),
            target="Brooklyn Bridge",
            form="named",
            task="counts",
            page="https://www.kaggle.com/datasets/new-york-city/nyc-east-river-bicycle-crossings",
            by_hand=(
                "log in at https://www.kaggle.com/datasets/new-york-city/nyc-east-river-bicycle-crossings and download "
                "nyc-east-river-bicycle-counts.csv"
            ),
            credit="New York City Department of Transportation, NYC Open Data (CC0), through Kaggle.",
            notes=(
                "30 days repeated seven times, so a random split leaks: test rows have twins in training.",
                "Copies differ in their header (High Temp, High Temp (°F)); all of them are read.",
            ),
        ),
        _evans(
            "pol",
            15000,
            26,
            "1c16126352954571e78f52d5a9d1b947a38655885d7cadd9407a4c9615fe4e04",
            "pole telecommunications",
            "last column",
        ),
        _evans(
            "bike",
            17379,
            17,
            "411f76ae426c0e348a2629dcf6b3b29102c7db465eae780a3454c39db1dfac4f",
            "bicycles rented in an hour, by weather and calendar",
            "log of the count",
            "UCI 275, H. Fanaee-T and J. Gama (2013), CC BY 4.0.",
            notes=(
                "Inputs 16 and 17 (casual and registered riders) sum to exp(target), before centring.",
                "The paper trains on 10 600 rows, not on the 11 122 of this split.",
            ),
        ),
        _evans(
            "elevators",
            16599,
            18,
            "e39bc18a80ec3611e4fd76d0f86ee377e96ba21b568b9997576d538dafe56b7b",
            "what the elevators of an F16 aircraft are told to do",
            "last column",
        ),
        _evans(
            "kin40k",
            40000,
            8,
            "9bee7f2a9f39aa61a015f239378368601fb3978c5bb9a96433e88a55d40883ba",
            "forward kinematics of an eight-link robot arm, almost without noise",
            "last column",
        ),
        _evans(
            "protein",
            45730,
            9,
            "f709d0107c3ee90ab019b9e5d77fc2ae182158958cb70b1903236a51334fd01b",
            "physicochemical properties of protein tertiary structures",
            "last column",
            "UCI 265, P. Rana (2013), CC BY 4.0.",
            notes=("43 972 of the 45 730 input rows are distinct.",),
        ),
        _evans(
            "keggdirected",
            48827,
            20,
            "51b7bb56e3f3eae36273cdd5a549c042bdf0ec10948a6f8e6b01a1d6912212cd",
            "KEGG metabolic pathways as relation networks",
            "last column",
            "UCI 220, M. Naeem and S. Asghar (2011), CC BY 4.0.",
            notes=("15 811 of the 48 827 input rows are distinct, so a random split leaks.",),
        ),
        _evans(
            "keggundirected",
            63608,
            27,
            "117419270e50f581df18bf996ffc8b6bf1bb76c9f3640331ac9d6e64cff63d4e",
            "KEGG metabolic pathways as reaction networks",
            "last column",
            "UCI 221, M. Naeem and S. Asghar (2011), CC BY 4.0.",
            notes=(
                "Input 10 is constant.",
                "18 451 of the 63 608 input rows are distinct, so a random split leaks.",
            ),
        ),
        _evans(
            "3droad",
            434874,
            3,
            "23b4995cca12fca521056cee7d5055ca28bea6a4fcae53259069650b448e1b51",
            "altitude along the roads of North Jutland",
            "last column (altitude)",
            "UCI 246, M. Kaul (2013), CC BY 4.0.",
            checked=_POINTER,
            notes=("Of the three inputs one is the number of the road's segment, not a coordinate.",),
        ),
        _evans(
            "song",
            515345,
            90,
            "671385b81b8a72cadd4c9cd152289f01b5c5f6a7ae6d51e59a7f412852c5ca70",
            "the year a song came out, by its timbre (YearPredictionMSD)",
            "last column (year)",
            "UCI 203, T. Bertin-Mahieux (2011), CC BY 4.0.",
            url=f"{_LFS}/song/data.csv.gz",
            checked=_POINTER,
            by_hand=(
                f"or take its two parts, {_EVANS}/song/data.csv.gz and data1.csv.gz, and join them "
                "(for TIGHTGP_DATA; the checksum is the undivided file's):\n"
                "  cat data.csv.gz data1.csv.gz > song.csv.gz"
            ),
            notes=("A random split has songs of one artist on both sides.",),
        ),
        _evans(
            "buzz",
            583250,
            77,
            "35813e6fa09f8ef6b94e57151a5a213e9bbb16021cf209636f6d9b8cc2270785",
            "how much a topic is talked about on Twitter",
            "last column",
            "UCI 248, F. Kawala et al. (2013), CC BY 4.0.",
            checked=_POINTER,
        ),
        Source(
            name="houseelectric",
            about="electric power of one household near Paris, minute by minute, 2006-2010",
            file="uci/houseelectric.npz",
            others=("uci/household_power_consumption.zip", "uci/household_power_consumption.txt"),
            rows=2049280,
            inputs=(
                "year",
                "day of the year",
                "minute of the day",
                "Global_reactive_power",
                "Voltage",
                "Global_intensity",
                "Sub_metering_1",
                "Sub_metering_2",
                "Sub_metering_3",
            ),
            target="log Global_active_power",
            form="household",
            page="https://archive.ics.uci.edu/dataset/235/individual+household+electric+power+consumption",
            url="https://archive.ics.uci.edu/static/public/235/individual+household+electric+power+consumption.zip",
            by_hand=(
                "download https://archive.ics.uci.edu/static/public/235/individual+household+electric+power+consumption.zip"
                "\nand keep it, unopened, as household_power_consumption.zip; the text file inside does as well"
            ),
            credit="UCI 235, G. Hebrail and A. Berard (2012), CC BY 4.0.",
            notes=(
                "The paper has nine inputs and does not say which. Here: the six other measurements, and the time in "
                "three numbers that lose nothing of it.",
                "The minutes without a measurement are left out.",
                "houseelectric.npz is the same table in whole numbers, smaller and quicker to read; only UCI's archive "
                "is public, and its checksum is not known.",
                "A random split has test rows a minute from training rows.",
            ),
        ),
        Source(
            name="oil",
            about="three-phase oil flow: twelve simulated densitometer readings; for latent variable models",
            file="oil_flow_train.npz",
            others=("three_phase_oil_flow.npz",),
            rows=1000,
            inputs=_numbered(12),
            target="flow (0, 1 or 2)",
            form="labelled",
            task="classes",
            page="https://github.com/GPflow/GPflow",
            by_hand=(
                "download https://raw.githubusercontent.com/GPflow/GPflow/5198f6bfead04c48b6b218edd95679ac375c7c57/"
                "doc/source/notebooks/data/three_phase_oil_flow.npz"
            ),
            credit="C. Bishop and G. James, Analysis of multiphase flows, Nuclear Instruments and Methods (1993).",
            notes=("Packed anew by everyone who offers it, so there is no checksum of a download.",),
        ),
    )


def names() -> tuple[str, ...]:
    """The names of all data sets, the small ones first."""
    return tuple(source.name for source in _sources())


def describe(name: str | Source) -> Source:
    """What is known of a data set; print it to read it."""
    if isinstance(name, Source):
        return name
    known = {source.name: source for source in _sources()}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(str(name).lower(), known, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"name must be one of {', '.join(map(repr, known))}; got {name!r}{meant}")
