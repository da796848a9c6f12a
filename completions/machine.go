package completions

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/installer/local"
)

const maxKubeconfig = 4 << 20

// Machine knows the fleets of this machine, which are kept in the folder fleets, and the contexts of the kubeconfig files.
func Machine(fleets string, kubeconfigs []string) Lookup {
	return func(_ context.Context, kind Kind, _ string) ([]Word, error) {
		switch kind {
		case Fleets:
			return ofFleets(fleets, local.Fleet.Members)
		case Processes:
			return ofFleets(fleets, processes)
		case Contexts:
			return contexts(kubeconfigs)
		}
		return nil, ErrUnknown
	}
}

// ofFleets are names of something that each fleet has.
func ofFleets(dir string, names func(local.Fleet) ([]string, error)) ([]Word, error) {
	all, err := local.All(dir)
	if err != nil {
		return nil, err
	}
	alone, err := local.AllAlone(dir)
	if err != nil {
		return nil, err
	}
	all = append(all, alone...)
	var words []Word
	for _, fleet := range all {
		list, err := names(fleet)
		if err != nil {
			return nil, err
		}
		for _, name := range list {
			words = append(words, Word{name, fleet.Repo})
		}
	}
	return sorted(words), nil
}

func processes(fleet local.Fleet) ([]string, error) {
	parts, err := fleet.Parts()
	names := make([]string, len(parts))
	for i := range parts {
		names[i] = parts[i].Name
	}
	return names, err
}

// kubeconfig is the part of such a file that says which contexts there are.
type kubeconfig struct {
	Contexts []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster string `yaml:"cluster"`
		} `yaml:"context"`
	} `yaml:"contexts"`
}

func contexts(files []string) ([]Word, error) {
	var words []Word
	for _, name := range files {
		text, err := readFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var config kubeconfig
		if err := yaml.Unmarshal(text, &config); err != nil {
			return nil, err
		}
		for _, c := range config.Contexts {
			words = append(words, Word{c.Name, c.Context.Cluster})
		}
	}
	return sorted(words), nil
}

func readFile(name string) ([]byte, error) {
	file, err := os.Open(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxKubeconfig))
}
