package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
)

// memoryDir holds a file for each service.
const memoryDir = "memory"

// Memory is what is remembered of one service beside its last good deployment. The zero value remembers nothing.
type Memory struct {
	// Begun is the key of which something may have been applied; empty when nobody has to know.
	Begun string
	// Capabilities tells of each key in use whether its render depends on what the cluster can do.
	Capabilities map[string]bool
	// Quarantined is the key that is not applied again, and Reason why. Test names the test that it failed, as a key of Tests.
	Quarantined, Reason, Test string
	// Tests are outcomes by whatever names a test of a key.
	Tests map[string]*api.TestReport
	// Tried is wherever tests ran since the service came, the newest last: what they left is looked for there when it goes.
	Tried []Reach
}

// Reach is where tests go, and as who.
type Reach struct {
	Namespace string `json:"namespace"`
	// Account is the service account NAMESPACE/NAME; empty is the agent itself.
	Account string `json:"account,omitempty"`
	// Namespaces confine it; empty is no bounds.
	Namespaces []string `json:"namespaces,omitempty"`
}

// memoryFile is how a Memory is written.
type memoryFile struct {
	Service      string            `json:"service"`
	Begun        string            `json:"begun,omitempty"`
	Capabilities map[string]bool   `json:"capabilities,omitempty"`
	Quarantined  string            `json:"quarantined,omitempty"`
	Reason       string            `json:"reason,omitempty"`
	Test         string            `json:"test,omitempty"`
	Tests        map[string][]byte `json:"tests,omitempty"` // api.TestReport
	Tried        []Reach           `json:"tried,omitempty"`
}

// SaveMemory remembers m of a service, in place of what was remembered.
func (s *Store) SaveMemory(service string, m Memory) error {
	file := memoryFile{
		service, m.Begun, m.Capabilities, m.Quarantined, m.Reason, m.Test, make(map[string][]byte, len(m.Tests)), m.Tried,
	}
	for _, name := range slices.Sorted(maps.Keys(m.Tests)) {
		body, err := proto.Marshal(m.Tests[name])
		if err != nil {
			return fmt.Errorf("remember %s: %w", service, err)
		}
		file.Tests[name] = body
	}
	body, err := json.Marshal(file)
	if err == nil {
		err = s.write(memoryDir, service, seal(body))
	}
	if err != nil {
		return fmt.Errorf("remember %s: %w", service, err)
	}
	return nil
}

// Memories returns what is remembered, by service. What cannot be read is left out, and said.
func (s *Store) Memories() (map[string]Memory, error) {
	entries, err := s.list(memoryDir)
	if err != nil {
		return nil, fmt.Errorf("list what is remembered: %w", err)
	}
	all := make(map[string]Memory, len(entries))
	var problems []error
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), temporary) {
			continue
		}
		service, m, err := s.memory(entry.Name())
		if err != nil {
			problems = append(problems, fmt.Errorf("read what is remembered of %q: %w", entry.Name(), err))
			continue
		}
		all[service] = m
	}
	return all, errors.Join(problems...)
}

func (s *Store) memory(name string) (service string, m Memory, err error) {
	raw, err := s.root.ReadFile(path.Join(memoryDir, name))
	if err != nil {
		return "", m, err
	}
	body, err := unseal(raw)
	if err != nil {
		return "", m, err
	}
	var file memoryFile
	if err := json.Unmarshal(body, &file); err != nil {
		return "", m, err
	}
	m = Memory{
		file.Begun, file.Capabilities, file.Quarantined, file.Reason, file.Test, make(map[string]*api.TestReport, len(file.Tests)),
		file.Tried,
	}
	for key, wire := range file.Tests {
		m.Tests[key] = new(api.TestReport)
		if err := proto.Unmarshal(wire, m.Tests[key]); err != nil {
			return "", m, err
		}
	}
	return file.Service, m, nil
}

// Forget removes what is kept of a service: its last good deployment, and what is remembered beside it.
func (s *Store) Forget(service string) error {
	var problems []error
	for _, dir := range []string{goodDir, memoryDir} {
		name, err := inside(dir, service)
		if err == nil {
			err = s.root.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, fmt.Errorf("forget %s: %w", service, err))
		}
	}
	return errors.Join(problems...)
}
