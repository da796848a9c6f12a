package terraform

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// environment is this process's own, so that providers find their credentials, without what would make a run another
// one than the module and its inputs say, and without what is meant for this program alone. More goes on top.
func environment(more map[string]string) []string {
	env := environmentMap(more)
	env["TF_INPUT"] = "0"
	env["TF_IN_AUTOMATION"] = "1"
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// environmentMap is environment without what terraform-exec insists on setting itself.
func environmentMap(more map[string]string) map[string]string {
	env := map[string]string{}
	for _, pair := range os.Environ() {
		if name, value, ok := strings.Cut(pair, "="); ok && !ours(name) {
			env[name] = value
		}
	}
	maps.Copy(env, more)
	env["CHECKPOINT_DISABLE"] = "1"
	if _, err := os.Stat(env[cliConfig]); errors.Is(err, fs.ErrNotExist) {
		delete(env, cliConfig) // it would be warned of in the middle of what is read as JSON, and be ignored
	}
	return env
}

// cliConfig names a file of a person's own settings.
const cliConfig = "TF_CLI_CONFIG_FILE"

// ours says whether a variable decides what we decide, or is none of a module's business.
func ours(name string) bool {
	for _, prefix := range []string{"TF_VAR_", "TF_CLI_ARGS", "TF_LOG", "PLURAL_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"TF_WORKSPACE", "TF_DATA_DIR", "TF_INPUT", "TF_IN_AUTOMATION", "TF_REATTACH_PROVIDERS", "TF_APPEND_USER_AGENT",
		"TF_DISABLE_PLUGIN_TLS", "TF_SKIP_PROVIDER_VERIFY", "TF_STATE_PERSIST_INTERVAL",
	}, name)
}
