#include "coordinator/cli/hccl_demo.h"

namespace muster {
namespace {

// Longer than a healthy pair ever takes; a pair that hangs ends by it.
constexpr std::chrono::minutes kDemoLimit{10};

// HCCL_COMM_ID is the address where the root listens: the rendezvous of the job, whose port nobody
// else has. Errors are looked for in what it prints, because it ends with 0 after some of them.
constexpr char kScript[] = R"sh([ "$LOCAL_RANK" = 0 ] || exit 0
export HCCL_COMM_ID="$MASTER_ADDR:$MASTER_PORT"
out=$(python3 run_hccl_demo.py --nranks "$WORLD_SIZE" --node_id "$GROUP_RANK" \
  --ranks_per_node "$LOCAL_WORLD_SIZE" --size 32m --test all_reduce --loop 1000 2>&1)
status=$?
printf '%s\n' "$out"
case "$out" in
  *"Exiting HCCL demo with code: 1"*|*"Source: QPC, error"*) exit 1 ;;
esac
[ "$status" = 0 ] || exit "$status"
[ "$RANK" = 0 ] || exit 0
case "$out" in
  *Bandwidth*) exit 0 ;;
esac
echo "run_hccl_demo.py has printed no bandwidth" >&2
exit 1
)sh";

}  // namespace

v1::JobSpec DemoJob(const v1::HostEntry& first, const v1::HostEntry& second,
                    const std::string& folder, const v1::JobSpec& base) {
  v1::JobSpec spec = PairJob("hccl_demo", first, second, kScript, kDemoLimit, base);
  spec.set_working_directory(folder);
  spec.set_devices("auto");
  return spec;
}

}  // namespace muster
