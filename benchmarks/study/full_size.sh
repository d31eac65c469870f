#!/usr/bin/env bash
# Runs of the study at full size that docs/reproduction.md is written from, on one GPU, in the order of what they tell per second.
#
#   bash benchmarks/study/full_size.sh DATA OUT PART...
#
# DATA has color_transfer/ and the latents; OUT gets a store for each command. Parts run one after another, the commands of a
# part beside each other. `times` needs a quiet machine. A part can be stopped: cells that are done are in its stores.
set -u
data=$1 out=$2
shift 2
mkdir -p "$out"

study() { # STORE EXPERIMENT OPTION...
    local store=$1 experiment=$2
    shift 2
    PYTHONPATH=src${PYTHONPATH:+:$PYTHONPATH} OMP_NUM_THREADS=1 python -m slicewise reproduce "$experiment" \
        --preset paper --store "$out/$store.db" --device cuda --no-report "$@" >"$out/$store.log" 2>&1
    local status=$?
    echo "$(date +%T) $store: $status $(tail -n 1 "$out/$store.log")"
}

for part in "$@"; do
    echo "$(date +%T) $part"
    case $part in
    times) # 11 toys three times, 22 translations: about 150 s, nothing beside them
        study toy-times gradient-flow --only times
        study translate-times translate --only times --latents "$data"
        ;;
    latents) # every rate of the paper on the root, and sw on the mean of W_2 over slices
        study translate translate --latents "$data" --only other-rates --seed 0 --jobs 6 &
        study translate-mean-root translate --latents "$data" --only mean-root --variant sw --seed 0 --jobs 2 &
        study generate generate --latents "$data" --only other-rates --seed 0 --jobs 3 &
        study color-dsw-short color --photographs "$data/color_transfer" --only search --variant dsw --objective root \
            --seed 0 --max-steps 5000 --dtype float32 --jobs 3 &
        wait
        ;;
    toys) # computed steps, with the reduction and without it
        study computed gradient-flow --only no-rate --jobs 6 &
        study color-sw-root color --photographs "$data/color_transfer" --only search --setting set1 --variant sw \
            --objective root --seed 0 &
        study color-power color --photographs "$data/color_transfer" --only search --setting set1 --objective power \
            --variant ebsw --variant rpsw --variant ebrpsw --variant omsw --variant rmsw --seed 0 --jobs 3 &
        wait
        ;;
    dsw) # the paper's 50,000 steps, in the single precision that its scripts use
        study color-dsw color --photographs "$data/color_transfer" --only search --variant dsw --objective root --seed 0 \
            --dtype float32 --jobs 3
        ;;
    images) # digits in all dimensions at the paper's rates, and the faces of the fast variants
        study digits image-flow --mnist "$data/mnist_0_1.npz" --faces "$data/faces64.npz" --only search --setting mnist \
            --objective root --variant sw --variant ebsw --variant rpsw --variant ebrpsw --variant omsw --variant rmsw \
            --jobs 6 &
        study faces image-flow --mnist "$data/mnist_0_1.npz" --faces "$data/faces64.npz" --only search --setting faces \
            --objective root --variant sw --variant ebsw --seed 0 --jobs 2 &
        wait
        ;;
    ascents) # digits by the variants that ascend
        study digits-ascents image-flow --mnist "$data/mnist_0_1.npz" --faces "$data/faces64.npz" --only search \
            --setting mnist --objective root --variant maxsw --variant imsw --variant vimsw --variant maxksw --variant dsw \
            --seed 0 --jobs 5
        ;;
    again) # rates that were run before per-run records were kept, and further seeds
        study translate-first translate --latents "$data" --only search --seed 0 --jobs 6 &
        study generate-mean-root generate --latents "$data" --only mean-root --variant sw --seed 0 &
        wait
        ;;
    *)
        echo "no part $part: times, latents, toys, dsw, images, ascents, again" >&2
        exit 2
        ;;
    esac
done
