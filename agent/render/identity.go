package render

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

const fingerprintDigits = 16

// Fingerprint names what a cluster can do, as far as a render may ask.
func Fingerprint(kubeVersion string, apiVersions []string) string {
	sum := sha256.New()
	for _, text := range append([]string{kubeVersion}, slices.Sorted(slices.Values(apiVersions))...) {
		fmt.Fprintln(sum, text)
	}
	return hex.EncodeToString(sum.Sum(nil))[:fingerprintDigits]
}

// Tenant is the Input.Tenant of services whose objects are applied to one cluster with the same rights: as this service account, or
// as the agent itself when it is empty, into these namespaces, or all of them. Who writes one of them could as well have written
// another. It must not be set on an Input that holds anything sealed.
func Tenant(cluster, account string, namespaces []string) string {
	return fmt.Sprintf("%q: %q in %q", cluster, account, slices.Sorted(slices.Values(namespaces)))
}

// Identity names a render that depends on what its cluster can do: the same key and fingerprint, the same objects. Any other
// is named by the key of its input alone. Whoever applies a service goes by it, so that one process knows again what another
// has applied.
func Identity(key, fingerprint string) string { return key + "+" + fingerprint }
