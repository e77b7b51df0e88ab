#!/usr/bin/env python3
"""Records tests/golden/chat_templates.json: what Jinja2 makes of chat templates like those found in model files.

    python record_chat_templates.py [--out DIR]

Run with the python of the peer environment. The environment has the settings that model tools use: blocks are trimmed,
sandboxed, `raise_exception` and `strftime_now` as functions. A case with "error" must fail with that text.
"""

import argparse
import json
import pathlib

import jinja2
import jinja2.sandbox

HERE = pathlib.Path(__file__).resolve().parent


class TemplateFailure(Exception):
    pass


def render(template, **variables):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)

    def raise_exception(message):
        raise TemplateFailure(message)

    environment.globals["raise_exception"] = raise_exception
    return environment.from_string(template).render(**variables)


# Our own templates; each uses the constructs of one family of published ones.
TEMPLATES = {
    "turns": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set prefix = "" -%}
    {%- set rest = messages -%}
{%- endif -%}
{%- for message in rest -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("roles must alternate between user and assistant") }}
    {%- endif -%}
    {%- set speaker = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + speaker + '\\n' + (prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("content of an unknown kind") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model\\n' }}
{%- endif -%}""",
    "marked": """{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nBe helpful.<|im_end|>\\n' }}{% endif %}
{% for message in messages %}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- if not loop.last %}{{ '' }}{% endif %}
{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}""",
    "headers": """{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|header|>' + message['role'] + '<|end_header|>\\n\\n' + message['content'] | trim + '<|eot|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|header|>assistant<|end_header|>\\n\\n' }}{% endif %}""",
    "brackets": """{%- if messages[0].role == "system" %}
    {%- set system = messages[0].content %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set turns = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in turns %}
    {%- if message.role == "user" %}
        {%- if loop.last and system is defined %}
            {{- "[INST] " + system + "\\n\\n" + message.content + "[/INST]" }}
        {%- else %}
            {{- "[INST] " ~ message.content ~ "[/INST]" }}
        {%- endif %}
    {%- elif message.role == "assistant" %}
        {{- " " + message.content.strip() + eos_token }}
    {%- else %}
        {{- raise_exception("only user and assistant roles are supported, with an optional first system message") }}
    {%- endif %}
{%- endfor %}
""",
    "namespace": """{%- set ns = namespace(count=0, last='none') -%}
{%- for m in messages if m.role in ['user', 'assistant'] -%}
{%- set ns.count = ns.count + 1 -%}{%- set ns.last = m.role -%}
{{ ns.count }}:{{ m.role | upper }}={{ m.content | length }};
{%- else -%}nobody{%- endfor -%}
{{ ns.last }}{% if not (ns.count > 1 and ns.last == 'assistant') or false %}!{% endif %}{# a comment #}
{%- if tools is defined and tools %} tools{% endif -%}
{{ messages | map(attribute='role') | join(',') }} {{ messages[-1]['content'][:3] }} {{ (missing | default('d')) }}""",
}

USER = {"role": "user", "content": "  Hello \u65e5\u672c \U0001f600\n"}
ASSISTANT = {"role": "assistant", "content": " Hi! "}
SYSTEM = {"role": "system", "content": "Answer briefly."}
CONVERSATIONS = {
    "user": [USER],
    "system_user": [SYSTEM, USER],
    "three": [USER, ASSISTANT, {"role": "user", "content": "And 'quotes' \"both\" {{ not code }}?"}],
    "four": [SYSTEM, USER, ASSISTANT, {"role": "user", "content": "multi\nline"}],
    "parts": [{"role": "user", "content": [{"type": "text", "text": " a "}, {"type": "text", "text": "b"}]}],
    "wrong_order": [ASSISTANT, USER],
    "two_systems": [SYSTEM, SYSTEM],
}


def main():
    parser = argparse.ArgumentParser(description="Records what Jinja2 makes of chat templates.")
    parser.add_argument("--out", type=pathlib.Path, default=HERE.parents[1] / "tests" / "golden")
    arguments = parser.parse_args()
    cases = []
    for template_name, template in TEMPLATES.items():
        for conversation, messages in CONVERSATIONS.items():
            if conversation == "parts" and template_name != "turns":
                continue
            for add_generation_prompt in (True, False):
                case = {"template": template_name, "conversation": conversation,
                        "add_generation_prompt": add_generation_prompt}
                try:
                    case["rendered"] = render(template, messages=messages, bos_token="<bos>", eos_token="<eos>",
                                              add_generation_prompt=add_generation_prompt)
                except TemplateFailure as failure:
                    case["error"] = str(failure)
                cases.append(case)
    golden = {"format": 1, "oracle": {"jinja2": jinja2.__version__,
                                      "command": "python benchmarks/peers/record_chat_templates.py",
                                      "options": {"trim_blocks": True, "lstrip_blocks": True}},
              "bos_token": "<bos>", "eos_token": "<eos>", "templates": TEMPLATES, "conversations": CONVERSATIONS,
              "cases": cases}
    path = arguments.out / "chat_templates.json"
    path.write_text(json.dumps(golden, indent=1) + "\n")
    print(path)


if __name__ == "__main__":
    main()
