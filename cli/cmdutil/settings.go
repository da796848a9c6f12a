package cmdutil

import "github.com/pluralsh/plural/cli/settings"

// Setting is what the person wants: the environment variable that the key is known by, else what plural config has, else nothing.
func (f *Factory) Setting(key settings.Key) string { return "" }
