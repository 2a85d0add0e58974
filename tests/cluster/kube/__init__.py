"""A real Kubernetes of two nodes on one Linux machine, for the tests: no container engine, no virtual machine.

`scripts/cluster up` is the way in.  Each node is a process tree in namespaces of its own (mounts, processes,
network, host name), so that killing its first process is a power cut: nothing of it is left on the machine.
The control plane runs as plain processes beside them.

    host: hora0 10.88.0.1   etcd, kube-apiserver, -controller-manager, -scheduler, CoreDNS
            │
    switch: a bridge in a network namespace of its own, where no firewall of the host sees it
       ┌────┴─────┐
    node one     node two     containerd, kubelet, kube-proxy each
    10.88.0.11   10.88.0.12
    10.89.1.0/24 10.89.2.0/24   pods

Pods reach nothing outside of the cluster: tests that do would depend on the day.
"""
