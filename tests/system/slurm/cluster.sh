#!/bin/bash
# A Slurm of its own on this machine: munge, a controller and some node daemons on loopback, all of
# their files below one folder, nothing in /etc. Needs root, slurm-wlm and munge; no systemd.
#
#   cluster.sh FOLDER [NODES]
#
# Prints "ready" when the nodes are idle and stays until its standard input ends. Everything runs in a
# PID namespace whose first process is this script, so that the kernel ends daemons, steps and orphans
# with it, however it ends. Clients need SLURM_CONF=FOLDER/slurm.conf.
set -euo pipefail

readonly folder=$1 nodes=${2:-2}

if [ "${3:-}" != inside ]; then
  # Two that start at the same time search from different places.
  export FIRST_PORT=$((20000 + 8 * ($$ % 1250)))
  exec unshare --pid --mount-proc --fork --kill-child=KILL -- "$0" "$folder" "$nodes" inside
fi

fail() {
  echo "failed: $1"
  tail -n 5 "$folder"/*.log >&2 2>/dev/null || true
  exit 1
}

# A port that nobody listens on, with as many behind it as are needed.
free_ports() {
  local base=$FIRST_PORT port
  while :; do
    for ((port = base; port < base + $1; ++port)); do
      if (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
        base=$((20000 + RANDOM % 10000))
        continue 2
      fi
    done
    echo "$base"
    return
  done
}

# The nodes claim more than any machine has (config_overrides lets them), so that the request of every
# cluster's job script fits; what a job starts is limited by what it really does.
write_configuration() {
  local host port
  host=$(hostname -s)
  port=$(free_ports $((nodes + 1)))
  cat >"$folder/slurm.conf" <<CONF
ClusterName=troupe
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# The life of a credential is also how long a requeued job waits: 121 seconds by default.
AuthInfo=socket=$folder/munge.socket,cred_expire=5
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
TmpFS=$folder/tmp.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_min_interval=0,bf_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
KillWait=5
SlurmdTimeout=10
MinJobAge=600
GresTypes=gpu
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
CONF
  local node
  for ((node = 0; node < nodes; ++node)); do
    mkdir -p "$folder/spool.node$node" "$folder/tmp.node$node"
    echo "NodeName=node$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1 + node))" \
      "CPUs=1024 RealMemory=2000000 Gres=gpu:v100:8,gpu:a100:8,gpu:h100:8,gpu:gh200:8,gpu:mi250:8" \
      "State=UNKNOWN" >>"$folder/slurm.conf"
  done
  # Slurm counts a GPU only where a file stands for it; any file does.
  mkdir -p "$folder/gpu"
  local type
  for type in v100 a100 h100 gh200 mi250; do
    touch "$folder/gpu/$type-"{0..7}
    echo "Name=gpu Type=$type File=$folder/gpu/$type-[0-7]"
  done >"$folder/gres.conf"
  # slurmd always loads a cgroup plugin, although nothing here uses one; looking for the version
  # would end it where none is mounted.
  echo CgroupPlugin=cgroup/v1 >"$folder/cgroup.conf"
}

start_daemons() {
  (umask 077 && head -c 128 /dev/urandom >"$folder/munge.key")
  munged --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
    --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" \
    --seed-file="$folder/munged.seed" || fail "munged did not start"
  slurmctld -f "$SLURM_CONF" || fail "slurmctld did not start"
  local node
  for ((node = 0; node < nodes; ++node)); do
    slurmd -f "$SLURM_CONF" -N "node$node" || fail "slurmd of node$node did not start"
  done
}

mkdir -p "$folder/state"
chmod 755 "$folder"
write_configuration
export SLURM_CONF=$folder/slurm.conf
start_daemons >/dev/null

for ((tries = 0; tries < 1200; ++tries)); do
  if sinfo -h -t idle -o %D 2>/dev/null | grep -qx "$nodes"; then
    echo ready
    cat >/dev/null  # until whoever started this closes the pipe
    exit 0
  fi
  sleep 0.1
done
fail "the nodes are not idle after 120 seconds"
