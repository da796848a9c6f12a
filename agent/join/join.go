// Package join owns an agent's exchange of a join token for its registration.
//
// It refuses to know what a registered agent does.
package join

import (
	"context"
	"errors"

	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/agent/identity"
)

// SecretName is the Secret, in identity.Namespace, in which a cluster that is to join has its token.
const SecretName = "plural-join"

// Join registers this cluster, if it has a join token.
func Join(context.Context, dynamic.Interface) (identity.Registration, error) {
	return identity.Registration{}, errors.ErrUnsupported
}
