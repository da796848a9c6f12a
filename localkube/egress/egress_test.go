package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/pluralsh/plural/localkube/egress"
)

// dialed is what the dialer of a test let through; nothing is connected to.
type dialed struct{ addresses []string }

var errOutside = errors.New("not in a test")

func (d *dialed) dial(_ context.Context, _, address string) (net.Conn, error) {
	d.addresses = append(d.addresses, address)
	return nil, errOutside
}

func service(name, address string, spec corev1.ServiceSpec) *corev1.Service {
	spec.ClusterIPs = []string{address}
	spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443}, {Name: "metrics", Port: 9090}}
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name}, Spec: spec}
}

func endpoints(service string, addresses ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		Ports:      []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(9443))}},
	}
	for _, address := range addresses {
		text, unready := strings.CutPrefix(address, "unready ")
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{text}, Conditions: discoveryv1.EndpointConditions{Ready: new(!unready)},
		})
	}
	return slice
}

func newDialer(t *testing.T, outside *dialed) *egress.Dialer {
	t.Helper()
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	services, slices := cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace), cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace)
	for _, object := range []any{
		service("simulated", "10.96.0.10", corev1.ServiceSpec{}),
		service("real", "10.96.0.11", corev1.ServiceSpec{}),
		service("mixed", "10.96.0.12", corev1.ServiceSpec{}),
		service("empty", "10.96.0.13", corev1.ServiceSpec{}),
		service("elsewhere", "", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "hooks.example.com"}),
		service("alias", "", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "real.web.svc.cluster.local"}),
	} {
		if err := services.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range []any{
		endpoints("simulated", "10.128.0.5", "10.128.0.6"), endpoints("real", "unready 192.0.2.6", "192.0.2.7"), endpoints("mixed", "10.128.0.5", "192.0.2.8"),
	} {
		if err := slices.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return &egress.Dialer{
		Services: corelisters.NewServiceLister(services), Endpoints: discoverylisters.NewEndpointSliceLister(slices),
		Cluster: netip.MustParsePrefix("10.96.0.0/12"),
		MadeUp:  []netip.Prefix{netip.MustParsePrefix("10.64.0.0/16"), netip.MustParsePrefix("10.128.0.0/9"), netip.MustParsePrefix("127.0.0.0/8")},
		Outside: outside.dial,
	}
}

func TestNothingThatTheClusterNamesLeavesTheMachine(t *testing.T) {
	tests := map[string]struct {
		address string
		// through is what is dialled; empty: nothing is, and the error says want.
		through, want string
	}{
		"a simulated service by name":        {"simulated.web.svc:443", "", "no process serves service web/simulated: pods of a local cluster are simulated"},
		"a simulated service by long name":   {"Simulated.web.svc.cluster.local.:443", "", "no process serves service web/simulated"},
		"a simulated service by address":     {"10.96.0.10:443", "", "no process serves service web/simulated"},
		"a service that has no pods":         {"empty.web.svc:443", "", "no process serves service web/empty"},
		"a service without that port":        {"real.web.svc:8443", "", "service web/real has no port 8443"},
		"a port that no endpoint has":        {"real.web.svc:9090", "", "no process serves service web/real"},
		"a service that is not there":        {"gone.web.svc:443", "", "no Service web/gone in this cluster"},
		"an address that no service has":     {"10.96.9.9:443", "", "no Service of this cluster has the address 10.96.9.9"},
		"a name of another kind":             {"web-0.real.web.svc:443", "", "names of a cluster are not looked up outside it"},
		"a pod's name":                       {"10-128-0-5.web.pod.cluster.local:443", "", "names of a cluster are not looked up outside it"},
		"a service that names another":       {"alias.web.svc:443", "", "no process serves service web/alias"},
		"a simulated pod":                    {"10.128.0.5:8080", "", "no process serves 10.128.0.5:8080: pods of a local cluster are simulated"},
		"a simulated node":                   {"10.64.0.1:10250", "", "no process serves 10.64.0.1:10250"},
		"a process behind a service":         {"real.web.svc:443", "192.0.2.7:9443", ""},
		"a process by the service's address": {"10.96.0.11:443", "192.0.2.7:9443", ""},
		"a process among simulated pods":     {"mixed.web.svc:443", "192.0.2.8:9443", ""},
		"a service that is outside":          {"elsewhere.web.svc:443", "hooks.example.com:443", ""},
		"a host that a person wrote":         {"hooks.example.com:8443", "hooks.example.com:8443", ""},
		"an address that a person wrote":     {"192.0.2.1:443", "192.0.2.1:443", ""},
		"an address of this machine":         {"127.0.0.1:6443", "127.0.0.1:6443", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var outside dialed
			_, err := newDialer(t, &outside).Dial(t.Context(), "tcp", tt.address)
			through := strings.Join(outside.addresses, " ")
			if through != tt.through || tt.through == "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("through %q, error %v; want %q, %q", through, err, tt.through, tt.want)
			}
		})
	}
}
