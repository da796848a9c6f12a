// Package egress owns the way from a local cluster's API server to webhooks, aggregated APIs, services, pods and kubelets.
//
// It refuses to know what is said there. Names and addresses of the cluster mean nothing outside it, and somebody else may
// have them there. So none of them is asked for at a name server or dialled: a Service stands for its endpoints, and a
// made-up address for nobody, which is said at once. Everything else is dialled as it is, such as the host in a webhook's URL.
package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
)

// Dialer connects to what the cluster names.
type Dialer struct {
	Services  corelisters.ServiceLister
	Endpoints discoverylisters.EndpointSliceLister
	// Cluster is what the Services' addresses are from; MadeUp are ranges of which simulated nodes and pods have theirs.
	Cluster netip.Prefix
	MadeUp  []netip.Prefix
	// Outside connects to everything else.
	Outside func(ctx context.Context, network, address string) (net.Conn, error)
}

// errSimulated says that there is nobody to talk to.
var errSimulated = errors.New("pods of a local cluster are simulated")

// Dial connects to HOST:PORT as it is meant in the cluster.
func (d *Dialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("port of %q: %w", address, err)
	}
	addr, err := netip.ParseAddr(host)
	switch {
	case err != nil && IsClusterName(host):
		service, err := d.named(host)
		if err != nil {
			return nil, err
		}
		return d.dialService(ctx, network, service, port)
	case err != nil:
		return d.Outside(ctx, network, address)
	case d.Cluster.Contains(addr.Unmap()):
		service, err := d.at(host)
		if err != nil {
			return nil, err
		}
		return d.dialService(ctx, network, service, port)
	case d.nobody(addr.Unmap()):
		return nil, fmt.Errorf("no process serves %s: %w", address, errSimulated)
	}
	return d.Outside(ctx, network, address)
}

// IsClusterName says whether a host is a name that only the name server of a cluster knows.
func IsClusterName(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, ".cluster.local")
}

// named is the Service NAME.NAMESPACE.svc, or NAME.NAMESPACE.svc.cluster.local.
func (d *Dialer) named(host string) (*corev1.Service, error) {
	parts := strings.Split(strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), "."), ".cluster.local"), ".")
	if len(parts) != 3 || parts[2] != "svc" {
		return nil, fmt.Errorf("%s is no Service, and names of a cluster are not looked up outside it", host)
	}
	service, err := d.Services.Services(parts[1]).Get(parts[0])
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("no Service %s/%s in this cluster", parts[1], parts[0])
	}
	return service, err
}

// at is the Service with an address.
func (d *Dialer) at(address string) (*corev1.Service, error) {
	all, err := d.Services.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, service := range all {
		if slices.Contains(service.Spec.ClusterIPs, address) {
			return service, nil
		}
	}
	return nil, fmt.Errorf("no Service of this cluster has the address %s", address)
}

// dialService connects to an endpoint of a Service behind which there is a process.
func (d *Dialer) dialService(ctx context.Context, network string, service *corev1.Service, port int) (net.Conn, error) {
	name := service.Namespace + "/" + service.Name
	if outside := service.Spec.ExternalName; service.Spec.Type == corev1.ServiceTypeExternalName && !IsClusterName(outside) {
		return d.Outside(ctx, network, net.JoinHostPort(outside, strconv.Itoa(port)))
	}
	where := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return int(p.Port) == port })
	if where < 0 {
		return nil, fmt.Errorf("service %s has no port %d", name, port)
	}
	selector := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service.Name})
	lists, err := d.Endpoints.EndpointSlices(service.Namespace).List(selector)
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		at := slices.IndexFunc(list.Ports, func(p discoveryv1.EndpointPort) bool {
			return p.Port != nil && p.Name != nil && *p.Name == service.Spec.Ports[where].Name
		})
		for _, endpoint := range list.Endpoints {
			if at < 0 || len(endpoint.Addresses) == 0 || endpoint.Conditions.Ready != nil && !*endpoint.Conditions.Ready {
				continue
			}
			if addr, err := netip.ParseAddr(endpoint.Addresses[0]); err == nil && !d.Cluster.Contains(addr.Unmap()) && !d.nobody(addr.Unmap()) {
				return d.Outside(ctx, network, net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*list.Ports[at].Port))))
			}
		}
	}
	return nil, fmt.Errorf("no process serves service %s: %w", name, errSimulated)
}

// nobody says whether an address was made up. This machine may have one like it, and what is there is real.
func (d *Dialer) nobody(addr netip.Addr) bool {
	if !slices.ContainsFunc(d.MadeUp, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return false
	}
	own, err := net.InterfaceAddrs()
	return err != nil || !slices.ContainsFunc(own, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == addr
	})
}
