#!/usr/bin/env python3
"""Records tests/golden/jinja.json: what Jinja2, set up as chat templates expect it, makes of the templates below.

    python3 -m pip install jinja2==3.1.6 && python3 tests/golden/record_jinja.py

The templates are written for this test. `families` have the prompt formats and the constructs of the templates that model
families ship; `features` are one construct each. A case whose rendering fails records the kind of failure only.
"""

import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

FAMILIES = {
    "gemma": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set preamble = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set preamble = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set preamble = "" -%}
    {%- set rest = messages -%}
{%- endif -%}
{%- for message in rest -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("roles must alternate between user and assistant") }}
    {%- endif -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' + (preamble if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("unknown kind of content") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model\\n' }}
{%- endif -%}
""",
    "gemma2": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}"
    "{% else %}{% set role = message['role'] %}{% endif %}"
    "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}",
    "llama2": "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}"
    "{% else %}{% set rest = messages %}{% set system = false %}{% endif %}{% for message in rest %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if loop.index0 == 0 and system != false %}{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
    "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
    "{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
    "llama3": """{{- bos_token }}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}

{#- The system message comes first, whether there is one or not. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\\n\\n"}}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one tool call at once") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '{"name": "' + tool_call.name + '", "parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "mistral": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}

{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- else %}
        {{- raise_exception("only user and assistant roles, with an optional initial system message") }}
    {%- endif %}
{%- endfor %}
""",
    "qwen2.5": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "<|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
}

CONVERSATIONS = [
    [("user", "Hello")],
    [("system", "Be brief. "), ("user", " \n Hi \u00a0\u3000\n")],
    [("user", "What is 2 + 2?\n"), ("assistant", " 4 "), ("user", "And 3 + 3? 日本 😀")],
    [("system", "S"), ("user", "a"), ("assistant", "b"), ("user", "{{ c }} {% d %}"), ("assistant", "e")],
    [("user", "twice"), ("user", "the same")],
    [("assistant", "I begin")],
    [("user", "q"), ("tool", "r1"), ("tool", "r2")],
    [],
]

FEATURES = """\
{{ 1 + 2 * 3 - 4 // 3 }}|{{ 7 / 2 }}|{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 7 % -3 }}|{{ 2 ** 10 }}|{{ 1.5 + 1 }}|{{ 1e20 }}|{{ 1e-5 }}|{{ 0.1 + 0.2 }}
{{ 'a' ~ 1 ~ none ~ true }}|{{ "it's" }}|{{ 'q"' }}|{{ 'tab\\tnl\\n\\x41\\u00e9\\101' }}|{{ 'a' 'b' }}|{{ 'ab' * 2 }}
{{ [1, 'a', "it's", none, true, 1.0, {'k': [2]}] }}|{{ {} }}|{{ [] }}
{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 3 >= 3 }}{{ 'a' < 'b' }}{{ 1 == 1.0 }}{{ '1' == 1 }}{{ [1] == [1] }}{{ none == false }}
{{ 2 in [1, 2] }}{{ 'b' in 'abc' }}{{ 'k' in {'k': 1} }}{{ 3 not in [1] }}{{ not 1 in [1] }}{{ 'x' in nothing }}
{{ a and 'yes' or 'no' }}|{{ 0 or [] or 'last' }}|{{ 'x' if zero else 'y' }}|{{ 'only' if zero }}|{{ not not a }}
{{ s[0] }}{{ s[-1] }}|{{ s[1:3] }}|{{ s[::-1] }}|{{ s[:-1] }}|{{ s[5:1] }}|{{ l[1:] }}|{{ l[-2:] }}|{{ l[::2] }}|{{ l[9] }}|{{ l[9:] }}
{{ d.k }}{{ d['k'] }}{{ d.missing }}|{{ d.get('k') }}{{ d.get('z') }}{{ d.get('z', 'zz') }}|{{ d.n.0.1 }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}|{% for k in d %}{{ k }}{% endfor %}|{{ d.keys() | list }}|{{ d.values() | list }}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }},{% else %}none{% endfor %}
{% for x in [] %}x{% else %}none{% endfor %}|{% for x in nothing %}x{% else %}none{% endfor %}
{% for x in l if x != 2 %}{{ x }}{{ loop.last }}{% endfor %}|{% for c in 'hé' %}{{ c }}.{% endfor %}
{% for x in range(3) %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}|{% for x in range(5, 0, -2) %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{% endfor %}
{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }}{% endfor %}|{{ a }}
{% set x = 1 %}{% for i in l %}{% set x = i %}{% endfor %}{{ x }}|{% set ns = namespace(n=0) %}{% for i in l %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}
{% set x, y = 1, 2 %}{{ x }}{{ y }}|{% set z %}block {{ x }}{% endset %}{{ z | upper }}|{% if true %}{% set w = 3 %}{% endif %}{{ w }}
{% macro m(p, q='d') %}<{{ p }}{{ q }}{{ x }}>{% endmacro %}{% set x = 'g' %}{{ m(1) }}{{ m(1, 2) }}{{ m(q=3, p=4) }}{{ m() }}
{% raw %}{{ not }} {% this %}{% endraw %}|{# comment {{ x }} #}|{{ '{{' }}{{ '%}' }}
{{ '  trim \u00a0' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ 'ABC' | lower }}{{ 'abc' | upper }}{{ 'hello wORLD-x' | title }}{{ 'hELLO' | capitalize }}
{{ nothing | default('dd') }}{{ '' | default('e') }}{{ '' | default('e', true) }}{{ none | default('f') }}|{{ nothing | d }}
{{ l | length }}{{ s | length }}{{ d | count }}{{ 'é日' | length }}{{ nothing | length }}|{{ l | join('-') }}|{{ l | join }}|{{ ['a', 1, none] | join(', ') }}
{{ l | first }}{{ l | last }}{{ s | first }}{{ l | reverse | list }}{{ s | reverse }}{{ [3, 1, 2] | sort }}{{ [3, 1] | sort(reverse=true) }}{{ ['b', 'A'] | sort }}
{{ {'b': 1, 'a': [true, none, 1.5, 'é"\\n']} | tojson }}|{{ [1, {'a': 2}, [], {}] | tojson(indent=2) }}|{{ 'x' | tojson }}|{{ {'b': 1, 'a': 2} | tojson(sort_keys=true, separators=(',', ':')) }}
{{ people | map(attribute='name') | join(',') }}|{{ people | selectattr('age', 'gt', 30) | map(attribute='name') | list }}|{{ people | rejectattr('admin') | list | length }}|{{ people | selectattr('admin', 'defined') | list | length }}
{{ l | map('string') | list }}{{ [1, 2, 3, 4] | select('odd') | list }}{{ [0, 1, ''] | select | list }}{{ [1, 2] | reject('equalto', 1) | list }}{{ [1, 1, 2] | unique | list }}
{{ '12' | int + 1 }}{{ 'x' | int }}{{ '1.5' | float }}{{ 3.9 | int }}{{ -3 | abs }}{{ l | sum }}{{ l | max }}{{ l | min }}{{ 5 | string + 'x' }}
{{ 'a\\nb\\n\\nc' | indent(2) }}|{{ 'a\\nb' | indent(1, true) }}|{{ 'aXbX' | replace('X', '-') }}|{{ 'aXbX' | replace('X', '-', 1) }}|{{ d | dictsort | list | length }}
{{ ' a '.strip() }}|{{ 'xax'.strip('x') }}|{{ ' a'.lstrip() }}|{{ 'a '.rstrip() }}|{{ 'a b  c'.split() }}|{{ 'a,b,,c'.split(',') }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'a,b,c'.rsplit(',', 1) }}
{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith('bc') }}{{ 'abc'.startswith(('x', 'a')) }}{{ 'abc'.find('c') }}{{ 'abc'.find('z') }}{{ 'abcb'.count('b') }}{{ 'abc'.replace('b', 'B') }}{{ '-'.join(['a', 'b']) }}{{ 'aB'.upper() }}{{ 'aB'.lower() }}{{ 'a b'.title() }}{{ '12'.isdigit() }}{{ 'a\\nb\\r\\nc'.splitlines() }}
{{ nothing is defined }}{{ a is defined }}{{ nothing is undefined }}{{ none is none }}{{ s is string }}{{ 1 is number }}{{ true is number }}{{ 1 is integer }}{{ true is integer }}{{ 1.5 is float }}{{ true is boolean }}{{ true is true }}{{ 1 is true }}
{{ l is iterable }}{{ s is iterable }}{{ 1 is iterable }}{{ d is mapping }}{{ l is mapping }}{{ l is sequence }}{{ d is sequence }}{{ 3 is odd }}{{ 3 is even }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(4) }}{{ 1 is eq 1 }}{{ 1 is in [1] }}{{ a is not none }}{{ a is not defined or true }}
{% if zero %}a{% elif nothing %}b{% elif l %}c{% else %}d{% endif %}{% if [] %}x{% endif %}{% if {} %}x{% endif %}{% if '' %}x{% endif %}{% if none %}x{% endif %}{% if 0.0 %}x{% endif %}
  {% if a %}
    text
  {% endif %}
line {%- if a %} one {%- endif %}
{%- for x in l -%}
  {{ x }}
{%- endfor +%}
  {%+ if a %}kept{% endif %}
{# comment on its own line #}
  {{- ' left' }}   {{ 'right ' -}}   |
{% set t = 'in' -%}    joined {{ t }}
 {%- set t = 'end' %}
{{ t }}
{{ nothing.attribute }}
{{ l[0].x.y }}
{{ nothing['k'] }}
{{ 1 / 0 }}
{{ 'a' + 1 }}
{{ raise_exception('stop here') }}
{{ undefined_function() }}
{{ 1 | no_such_filter }}
{{ 1 is no_such_test }}
{% if a %}
{% endfor %}
{{ a
{{ 'open }}
{{ (1 }}
{{ 1 2 }}
{% for x %}{% endfor %}
{% set ns.x = 1 %}
{% set a.b = 1 %}
{# open
{% raw %} open
"""

VARIABLES = {
    "a": 5, "zero": 0, "s": "aé日z", "l": [1, 2, 3], "d": {"k": "v", "n": [[1, 2]]},
    "people": [{"name": "Ann", "age": 31, "admin": True}, {"name": "Bob", "age": 25}, {"name": "Cy", "age": 40, "admin": False}],
}


class Raised(Exception):
    pass


def raise_exception(message):
    raise Raised(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


def render(template, variables):
    try:
        return {"text": environment().from_string(template).render(**variables)}
    except Raised as raised:
        return {"raised": str(raised)}
    except Exception as failure:  # the kind is enough: texts differ between implementations
        return {"failure": type(failure).__name__}


def features():
    lines = FEATURES.splitlines()
    first = lines.index("  {% if a %}")  # from here to "{{ t }}" is one template of several lines
    last = lines.index("{{ t }}")
    templates = lines[:first] + ["\n".join(lines[first : last + 1])] + lines[last + 1 :]
    return templates + ["a\r\nb\rc\n", "x\n\n", "\n{% if a %}\n\nx{% endif %}\n\n", "{% if a %}\r\nx{% endif %}", ""]


def main():
    cases = []
    for name, template in FAMILIES.items():
        for conversation in CONVERSATIONS:
            for add in (True, False):
                messages = [{"role": role, "content": content} for role, content in conversation]
                variables = {"messages": messages, "add_generation_prompt": add, "bos_token": "<bos>", "eos_token": "<eos>",
                             "tools": None, "documents": None}
                cases.append({"name": name, "messages": messages, "add_generation_prompt": add} | render(template, variables))
    out = {
        "jinja2": jinja2.__version__,
        "command": "python3 tests/golden/record_jinja.py",
        "families": FAMILIES,
        "variables": VARIABLES,
        "conversations": cases,
        "features": [{"template": t} | render(t, VARIABLES) for t in features()],
    }
    path = pathlib.Path(__file__).with_name("jinja.json")
    path.write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{path}: {len(cases)} conversations, {len(out['features'])} features")


if __name__ == "__main__":
    main()
