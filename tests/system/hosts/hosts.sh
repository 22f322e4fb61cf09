#!/bin/sh
# Hosts of a test's own: network namespaces with their addresses on one bridge, beside the machine's
# network, which is not touched. Needs root.
#
#   hosts.sh up NAME COUNT    NAME-h1 ... at 10.77.0.1 ... on eth0; the bridge is in NAME-sw
#   hosts.sh down NAME        removes them
#   hosts.sh cut NAME HOST    takes the cable of host number HOST out
#   hosts.sh part NAME HOST HOST    nothing gets from one of the two to the other any more
#   hosts.sh mend NAME COUNT        undoes what the two above have done
#   hosts.sh slow NAME HOST RATE    lets so much through to that host, such as 200mbit
set -eu
name=$2
case $1 in
up)
  ip netns add "$name-sw"
  ip -n "$name-sw" link add bridge0 type bridge
  ip -n "$name-sw" link set bridge0 up
  for i in $(seq 1 "$3"); do
    ip netns add "$name-h$i"
    ip -n "$name-h$i" link set lo up
    ip link add "port$i" netns "$name-sw" type veth peer name eth0 netns "$name-h$i"
    ip -n "$name-sw" link set "port$i" master bridge0 up
    ip -n "$name-h$i" addr add "10.77.0.$i/24" dev eth0
    ip -n "$name-h$i" link set eth0 up
  done
  ;;
down)
  ip netns list | cut -d' ' -f1 | grep "^$name-" | while read -r space; do
    ip netns del "$space"
  done
  ;;
cut)
  ip -n "$name-sw" link set "port$3" down
  ;;
part)
  # Packets for the other leave for a card that nobody has.
  ip -n "$name-h$3" neigh replace "10.77.0.$4" lladdr 02:00:00:00:00:00 dev eth0 nud permanent
  ip -n "$name-h$4" neigh replace "10.77.0.$3" lladdr 02:00:00:00:00:00 dev eth0 nud permanent
  ;;
mend)
  for i in $(seq 1 "$3"); do
    ip -n "$name-sw" link set "port$i" up
    ip -n "$name-h$i" neigh flush dev eth0 nud all
  done
  ;;
slow)
  ip netns exec "$name-sw" tc qdisc add dev "port$3" root tbf rate "$4" burst 256k latency 50ms
  ;;
esac
