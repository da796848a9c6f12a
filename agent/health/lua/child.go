package lua

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/pluralsh/plural/internal/sandbox"
)

const (
	// maxCalls bounds recursion within a script.
	maxCalls = 200
	// maxRegistry bounds the values that a script's calls hold at a time.
	maxRegistry = 64 << 10
	// maxCompiled bounds the scripts that are kept compiled.
	maxCompiled = 64
	// maxSaid is the longest that a script says in one field, in bytes. A reply holds it also when each byte is escaped.
	maxSaid = maxReply / 16
	// memoryLook lies between two looks at how much is held.
	memoryLook = 10 * time.Millisecond
)

// ChildMain is the other end of Scripts, and the whole main of its process, since it takes away for good what a process
// usually can do. It returns the exit code when the parent has no more questions; when the parent dies or a script takes too
// much memory, it ends the process itself.
func ChildMain(stdin io.Reader, stdout io.Writer) int {
	// Whatever a library prints must not land between two replies.
	os.Stdout = os.Stderr
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))

	held := sandbox.MemoryHeld()
	if err := sandbox.Raise(sandbox.Limits{Memory: memory}); err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
		return 1
	}
	out := json.NewEncoder(stdout)
	if out.Encode(reply{}) != nil {
		return 1
	}
	answerer := &answerer{compiled: map[string]*lua.FunctionProto{}, most: held + memory}
	for line := range lines(stdin) {
		if out.Encode(answerer.answer(line)) != nil {
			return 1
		}
	}
	return 0
}

// lines are the parent's questions. The reading goes on beside a script that runs, so that the process ends at once when
// the parent does.
func lines(stdin io.Reader) <-chan []byte {
	questions := make(chan []byte)
	go func() {
		in := bufio.NewReader(stdin)
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				os.Exit(0)
			}
			questions <- line
		}
	}()
	return questions
}

// answerer evaluates scripts, one at a time.
type answerer struct {
	compiled map[string]*lua.FunctionProto
	most     int64 // of memory, in bytes
}

func (a *answerer) answer(line []byte) reply {
	defer watchMemory(a.most)()
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return reply{Error: clip("read question: " + err.Error())}
	}
	var object any
	if err := json.Unmarshal(asked.Object, &object); err != nil {
		return reply{Error: clip("read object: " + err.Error())}
	}
	script, err := a.compile(asked.Script)
	if err != nil {
		return reply{Error: clip(err.Error())}
	}
	status, message, err := evaluate(script, object)
	if err != nil {
		return reply{Error: clip(err.Error())}
	}
	return reply{Status: clip(status), Message: clip(message)}
}

func (a *answerer) compile(script string) (*lua.FunctionProto, error) {
	if known := a.compiled[script]; known != nil {
		return known, nil
	}
	tree, err := parse.Parse(strings.NewReader(script), "lua")
	if err != nil {
		return nil, fmt.Errorf("parse script: %w", err)
	}
	compiled, err := lua.Compile(tree, "lua")
	if err != nil {
		return nil, fmt.Errorf("compile script: %w", err)
	}
	if len(a.compiled) >= maxCompiled {
		clear(a.compiled)
	}
	a.compiled[script] = compiled
	return compiled, nil
}

// evaluate runs a script in a state of its own: nothing that one leaves behind is seen by another.
func evaluate(script *lua.FunctionProto, object any) (status, message string, err error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true, CallStackSize: maxCalls, RegistryMaxSize: maxRegistry})
	defer state.Close()
	if err := openLibraries(state); err != nil {
		return "", "", err
	}
	state.SetGlobal("obj", value(state, object))
	state.Push(state.NewFunctionFromProto(script))
	if err := state.PCall(0, 1, nil); err != nil {
		return "", "", fmt.Errorf("run script: %s", firstLine(err))
	}
	result, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return "", "", fmt.Errorf("the script returns %s; want a table with status and message", state.Get(-1).Type())
	}
	// Fields are read raw: a metatable would run more of the script.
	return text(result.RawGetString("status")), text(result.RawGetString("message")), nil
}

// openLibraries leaves a script the language, with tables, strings and mathematics. What loads code, prints, or reaches
// out of the state is not there; print is, and says nothing, because scripts are debugged with it and it is forgotten in them.
func openLibraries(state *lua.LState) error {
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return fmt.Errorf("open library %q: %w", name, err)
		}
	}
	for _, name := range []string{
		"collectgarbage", "dofile", "getfenv", "load", "loadfile", "loadstring", "module", "newproxy", "_printregs", "require", "setfenv",
	} {
		state.SetGlobal(name, lua.LNil)
	}
	state.SetGlobal("print", state.NewFunction(func(*lua.LState) int { return 0 }))
	return nil
}

// value is a JSON value in Lua's terms: lists count from 1, and null is not there.
func value(state *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case []any:
		table := state.CreateTable(len(v), 0)
		for i, item := range v {
			table.RawSetInt(i+1, value(state, item))
		}
		return table
	case map[string]any:
		table := state.CreateTable(0, len(v))
		for key, item := range v {
			table.RawSetString(key, value(state, item))
		}
		return table
	}
	return lua.LNil
}

// text is a string or a number of the script's; anything else is no text.
func text(v lua.LValue) string {
	if v.Type() == lua.LTString || v.Type() == lua.LTNumber {
		return v.String()
	}
	return ""
}

// firstLine is an error without the trace of the interpreter below it.
func firstLine(err error) string {
	words := err.Error()
	var failed *lua.ApiError
	if errors.As(err, &failed) && failed.Object != lua.LNil {
		words = failed.Object.String()
	}
	line, _, _ := strings.Cut(strings.TrimSpace(words), "\n")
	return line
}

// watchMemory ends the process when it holds more than most, until stop is called. It sees growth between two looks only,
// which is why the kernel watches as well where it can.
func watchMemory(most int64) (stop func()) {
	done := make(chan struct{})
	go func() {
		look := time.NewTicker(memoryLook)
		defer look.Stop()
		for {
			select {
			case <-done:
				return
			case <-look.C:
				if sandbox.MemoryHeld() > most {
					_, _ = os.Stderr.WriteString("out of memory")
					os.Exit(1)
				}
			}
		}
	}()
	return func() { close(done) }
}

func clip(words string) string {
	return strings.ToValidUTF8(words[:min(len(words), maxSaid)], "")
}
