package netguard_test

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/pluralsh/plural/internal/netguard"
)

func TestOnlyOrdinaryAddressesAreDialled(t *testing.T) {
	for address, why := range map[string]string{
		"169.254.169.254": "link-local", "::ffff:169.254.169.254": "link-local", "64:ff9b::a9fe:a9fe": "link-local",
		"64:ff9b:1::a9fe:a9fe": "link-local", "::ffff:0:a9fe:a9fe": "link-local", "64:ff9b:1:2::7f00:1": "loopback", "64:ff9b:1::a00:1": "",
		"64:ff9b:1:a9fe:a9:fe00:a00:1": "link-local", "64:ff9b:1:a9:fe:a9fe:a00:1": "link-local", "64:ff9b:1:0:a9:fea9:fe00:1": "link-local",
		"64:ff9b:1:a00:0:100::": "", "64:ff9b:1:a:0:1::": "", "64:ff9b:1:0:a:0:100:0": "", "64:ff9b:1::": "loopback",
		"64:ff9b:1:7f00:0:100::": "loopback", "64:ff9b:1:7f:0:1::": "loopback", "64:ff9b:1:0:7f:0:100:0": "loopback",
		"64:ff9b:1:e000:0:100::": "multicast", "64:ff9b:1:e0:0:1::": "multicast", "64:ff9b:1:0:e0:0:100:0": "multicast",
		// 10.0.127.5, 10.127.0.5 and 10.0.230.5
		"64:ff9b:1:a00:7f:500::": "", "64:ff9b:1:a7f:0:500::": "", "64:ff9b:1:a00:e6:500::": "",
		"64:ff9b:1:a:0:7f05::": "", "64:ff9b:1:a:7f:5::": "", "64:ff9b:1::a00:7f05": "", "64:ff9b:1::a7f:5": "",
		"fe80::1":      "link-local",
		"fe80::1%eth0": "link-local", "fd00:ec2::254": "credentials", "fd00:ec2::23": "credentials",
		"fd20:ce::254": "credentials", "2002:a9fe:a9fe::1": "link-local", "2002:7f00:1::": "loopback", "100.100.100.200": "credentials", "168.63.129.16": "credentials",
		"192.0.0.192": "credentials", "224.0.0.1": "multicast", "ff02::1": "multicast", "127.0.0.1": "loopback", "127.9.9.9": "loopback",
		"::1": "loopback", "::ffff:127.0.0.1": "loopback", "0.0.0.0": "loopback", "::": "loopback", "64:ff9b::7f00:1": "loopback",
		"10.0.0.1": "", "192.168.1.1": "", "172.16.0.1": "", "fd00::1": "", "93.184.216.34": "", "2606:2800::1": "", "100.64.0.1": "",
	} {
		at := netip.MustParseAddr(address)
		err := netguard.Policy{}.Check(at)
		if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", address, err, why)
		}
		if err := (netguard.Policy{Loopback: true}).Check(at); (err == nil) != (why == "" || why == "loopback") {
			t.Errorf("%s where loopback is allowed: %v", address, err)
		}
	}
}

func TestANameIsJudgedByWhatItResolvesTo(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"localhost", "127.0.0.1", "0.0.0.0"} {
		refused := new(netguard.Error)
		conn, err := (&net.Dialer{Control: netguard.Policy{}.Control}).DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
		if !errors.As(err, &refused) || !refused.Loopback {
			t.Errorf("%s: %v, %v", host, conn, err)
		}
		conn, err = (&net.Dialer{Control: netguard.Policy{Loopback: true}.Control}).DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Errorf("%s where loopback is allowed: %v", host, err)
			continue
		}
		_ = conn.Close()
	}
}
