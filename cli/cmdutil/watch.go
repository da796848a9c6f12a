package cmdutil

import (
	"context"
	"errors"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Watch shows something, and again whenever what the hub tells of these kinds, where it fits the filter, has changed it; changes that come
// close together are shown as one. It ends with ctx, or with an error of show's but that the hub is away.
func (f *Factory) Watch(ctx context.Context, kinds []v1.ChangeKind, filter string, show func(context.Context) error) error {
	return errors.New("watch: not there yet")
}
