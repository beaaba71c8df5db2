#!/usr/bin/env bash
# Two studies of eight hospitals and a laboratory, every member in processes of its own: docs/study.md, "Eight hospitals".
#
#   hospitals.sh DIRECTORY [OPTIONS OF psephos study new, such as --key-bits 512 --trial]
set -euo pipefail
examples=$(cd "$(dirname "$0")" && pwd)
python "$examples/hospitals.py" "$1" "${ROWS:-1500}"
cd "$1"
shift
hospitals=(${HOSPITALS:-north south east west harbour hill river county})

# STUDY ENDING: every hospital joins with its rows in NAME ENDING.csv, and every member's agent takes its steps until
# there is a result. With --yes nobody is asked whether the fingerprint is the others' too: people compare it.
hold() {
  local fingerprint agents=() data
  fingerprint=$(psephos study show "$1.toml" | sed -n 's/^study //p')
  for name in lab "${hospitals[@]}"; do
    data=(--data "$name$2.csv")
    [ "$name" = lab ] && data=()
    psephos join "$1.toml" --identity "$name" --board "$1.sqlite" --public public.csv "${data[@]}" \
      --output "$name/$1" --yes > "$name-$1-terms.txt" 2>&1
    psephos agent "$name" --study "$fingerprint" > "$name-$1.log" 2>&1 &
    agents+=($!)
  done
  for agent in "${agents[@]}"; do wait "$agent"; done
  psephos verify "$1.toml" --board "$1.sqlite" --public public.csv --report "$1-receipt.html"
}

for name in "${hospitals[@]}"; do
  psephos study identity "Hospital $name" --output "$name" --budget 3 > /dev/null 2>&1
done
psephos study identity Laboratory --output lab > /dev/null 2>&1

cards=("${hospitals[@]/%//card.toml}")
psephos study new release.toml "${cards[@]}" --curator lab/card.toml --title "Readmission within 30 days" \
  --protocol record --public public.csv --label readmitted --classes no,yes --ignore room \
  --features linear --parameters rows=12000 --epsilon 1 --delta 1e-6 "$@"
hold release ""

# Another study, of rows that nobody trained on. Its epsilon adds to that of the release, in every hospital's budget.
psephos study new evaluation.toml "${cards[@]}" --curator lab/card.toml --title "How good it is" \
  --protocol evaluation --model lab/release/model.json --public public.csv --label readmitted --classes no,yes \
  --ignore room --epsilon 0.5 "$@"
hold evaluation -later
psephos study budget north
psephos predict lab/evaluation/model.json public.csv --output predicted.csv
