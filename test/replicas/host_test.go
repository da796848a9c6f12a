package replicas

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/needs"
)

// host is where a replica runs.
type host struct {
	// ip is its address; outside is an address of whoever is no replica, as the host sees it.
	ip, outside string
	// netns is the network namespace; empty is the machine's own.
	netns string
}

func (h host) command(name string, args ...string) *exec.Cmd {
	if h.netns == "" {
		return exec.Command(name, args...)
	}
	return exec.Command("ip", append([]string{"netns", "exec", h.netns, name}, args...)...)
}

// here are three hosts in one, on a loopback address that no other test uses: a port that is free stays so.
func here() [3]host {
	one := host{ip: fmt.Sprintf("127.%d.%d.%d", 64+rand.N(128), rand.N(256), 1+rand.N(254)), outside: "127.0.0.1"}
	return [3]host{one, one, one}
}

// apart are three hosts of their own, routed by this machine, which is outside.
func apart(t *testing.T) [3]host {
	t.Helper()
	needs.Program(t, "ip", "iproute2")
	needs.Root(t, "a network of hosts")
	run(t, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
	var hosts [3]host
	for i := range hosts {
		ns := fmt.Sprintf("plural-%d-%d", os.Getpid(), i)
		inner, outer := fmt.Sprintf("pi%d-%d", os.Getpid()%100000, i), fmt.Sprintf("po%d-%d", os.Getpid()%100000, i)
		hosts[i] = host{ip: fmt.Sprintf("10.213.%d.2", i), outside: fmt.Sprintf("10.213.%d.1", i), netns: ns}
		run(t, "ip", "netns", "add", ns)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
		run(t, "ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", ns)
		run(t, "ip", "addr", "add", hosts[i].outside+"/30", "dev", outer)
		run(t, "ip", "link", "set", outer, "up")
		run(t, "ip", "-n", ns, "addr", "add", hosts[i].ip+"/30", "dev", inner)
		run(t, "ip", "-n", ns, "link", "set", inner, "up")
		run(t, "ip", "-n", ns, "link", "set", "lo", "up")
		run(t, "ip", "-n", ns, "route", "add", "default", "via", hosts[i].outside)
	}
	return hosts
}

// cut makes packets from one host to another disappear; mend lets them through again.
func (h host) cut(t *testing.T, to host) {
	t.Helper()
	run(t, "ip", "-n", h.netns, "route", "add", "blackhole", to.ip+"/32")
}

func (h host) mend(t *testing.T, to host) {
	t.Helper()
	run(t, "ip", "-n", h.netns, "route", "del", "blackhole", to.ip+"/32")
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
