package podrun

import (
	"net"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// repository is an image without tag and digest.
func repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		image = image[:colon]
	}
	return image
}

// scene is what a container's arguments and environment are about.
type scene struct {
	names           *names
	namespace, name string
	ports           []int
	// folders are those of this machine, by where the container sees them.
	folders map[string]string
	env     map[string]string
}

var reference = regexp.MustCompile(`\$\$|\$\([A-Za-z_][A-Za-z0-9_.-]*\)`)

// expand fills $(NAME) in, as Kubernetes does: what is not known stays, and $$ is $.
func expand(text string, env map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		if value, ok := env[found[2:len(found)-1]]; ok {
			return value
		}
		return found
	})
}

// argument is what an argument is on this machine.
func (s *scene) argument(text string) string {
	text = expand(text, s.env)
	flag, value, isFlag := strings.Cut(text, "=")
	if !isFlag || !strings.HasPrefix(flag, "-") {
		return s.value(text)
	}
	return flag + "=" + s.value(value)
}

// argv is the command line of a program that takes the place of a container's.
func (s *scene) argv(c *corev1.Container, program Program, kubeconfig string) []string {
	argv := slices.Clone(program.Command)
	if len(c.Command) > 0 {
		for _, word := range c.Command[1:] {
			argv = append(argv, s.argument(word))
		}
	}
	for _, word := range c.Args {
		argv = append(argv, s.argument(word))
	}
	for _, word := range program.Args {
		argv = append(argv, expand(word, map[string]string{"KUBECONFIG": kubeconfig}))
	}
	return argv
}

// value is what a text is on this machine: paths, and lists of addresses.
func (s *scene) value(text string) string {
	parts := strings.Split(text, ",")
	for i, part := range parts {
		parts[i] = s.address(part)
	}
	return s.paths(strings.Join(parts, ","))
}

// address is HOST:PORT on this machine, when it is the container's own or another of the cluster's.
func (s *scene) address(text string) string {
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		return text
	}
	port, err := strconv.Atoi(number)
	if own := host == "" || host == "0.0.0.0" || host == "::"; err == nil && own && slices.Contains(s.ports, port) {
		return s.names.pod(s.namespace, s.name, port)
	}
	if here, ok := s.names.here(text); ok {
		return here
	}
	return text
}

// paths puts this machine's folders in the place of those that the container sees.
func (s *scene) paths(text string) string {
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == ':' || r == ',' })
	for _, part := range parts {
		if !path.IsAbs(part) {
			continue
		}
		best := ""
		for seen := range s.folders {
			if (part == seen || strings.HasPrefix(part, strings.TrimSuffix(seen, "/")+"/")) && len(seen) > len(best) {
				best = seen
			}
		}
		if best != "" {
			text = strings.Replace(text, part, filepath.Join(s.folders[best], strings.TrimPrefix(part, best)), 1)
		}
	}
	return text
}

func portsOf(c *corev1.Container) []int {
	var ports []int
	for _, p := range c.Ports {
		ports = append(ports, int(p.ContainerPort))
	}
	return ports
}
