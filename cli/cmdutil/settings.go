package cmdutil

import "github.com/pluralsh/plural/cli/settings"

// Where a setting can come from.
const (
	FromEnvironment = "environment"
	FromFile        = "config"
	FromDefault     = "default"
)

// Setting is what the person wants: what the key's own environment variable says, else what plural config has, else nothing. A
// file with mistakes has nothing; prepare has told of it.
func (f *Factory) Setting(key settings.Key) string {
	value, from := f.SettingFrom(key)
	if from == FromDefault {
		return ""
	}
	return value
}

// SettingFrom is a setting with where it comes from.
func (f *Factory) SettingFrom(key settings.Key) (value, from string) {
	s, _ := settings.Find(key)
	if value := f.Getenv(s.Env); value != "" {
		return value, FromEnvironment
	}
	if set, err := settings.Load(f.ConfigDir()); err == nil && set[key] != "" {
		return set[key], FromFile
	}
	return s.Default, FromDefault
}
