// Package controlplane owns how the parts of a Kubernetes control plane run inside this process.
//
// It refuses to know about nodes, command lines or where key material comes from.
// Every part is a value with a Run method that blocks until its context ends or
// the part gives up; none of them handles signals or exits by itself, apart from
// what Kubernetes calls fatal.
//
// Data passes through like this: the API server keeps everything in the Store over a
// Unix socket; Controllers and Scheduler reach the API server with the
// kubeconfig anybody else would use.
package controlplane

import (
	"errors"
	"fmt"

	"k8s.io/component-base/version"
)

// ServiceRange is what the Services' addresses are from.
const ServiceRange = "10.96.0.0/12"

// clientQPS and clientBurst lift the limits made for clusters whose API server is
// shared: here thousands of pods are started by one person who waits.
const (
	clientQPS   = 500
	clientBurst = 1000
)

// Version is the Kubernetes version served, such as v1.35.4. It is set by the linker.
func Version() string { return version.Get().GitVersion }

// joinErrors turns the error list of a Kubernetes validation into one error.
func joinErrors(doing string, errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, errors.Join(errs...))
}
