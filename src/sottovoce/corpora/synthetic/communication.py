"""The communication domain: calls, messages, mail, contacts."""

from sottovoce.corpora.synthetic.schema import Domain, Intent

COMMUNICATION = Domain(
    name="communication",
    slots={
        "address": "address",
        "app": "app",
        "birthday": "birth_date",
        "business": "business",
        "city": "city",
        "contact": "person",
        "count": "count",
        "date": "date",
        "date:past": "past_date",
        "device": "audio_device",
        "duration": "duration",
        "email_address": "email",
        "group": "group",
        "media": "media",
        "message": "message",
        "phone_number": "phone",
        "phone_type": "phone_type",
        "relation": "relation",
        "subject": "subject",
        "time": "time",
    },
    parts={
        "dial": "[call|phone|ring|dial|call up|ring up|get a hold of|give a call to|buzz]",
        "who": "[{contact}|my {relation}|{contact}|my {relation} {contact}]",
        "whose": "[{contact}'s|my {relation}'s]",
        "text": "[text|message|send a text to|send a message to|shoot a text to|write to|ping]",
        "say": "[(and) say|saying|that|that says|to say|with]",
        "msgs": "[messages|texts|text messages|unread messages|new messages|inbox|chats]",
        "mail": "[email|mail|e-mail]",
        "number": "[number|phone number|{phone_type} number|{phone_type}]",
        "when": "[{date}|at {time}|{date} at {time}|at {time} {date}|in {duration}]",
    },
    intents={
        "call": Intent(
            weight=24,
            act="""
                <dial> {contact}
                call my {relation}
                <dial> <who> (back|again|right away)
                <dial> {phone_number}
                <dial> <who> at {phone_number}
                <dial> <whose> {phone_type}
                <dial> <who> on [{phone_type}|her {phone_type}|his {phone_type}|their {phone_type}]
                <dial> {business}
                give <who> a [call|ring|buzz|shout|bell]
                <dial> <who> [on|using|with|through] {app}
                <dial> <who> on (the) {device}
                [make|place|start] a (phone|voice) call to [<who>|{phone_number}|{business}]
                get <who> on the [phone|line]
                [connect|put] me [to|through to] [<who>|{business}|{phone_number}]
                <dial> {business} in {city}
                [talk to|speak to|speak with|reach|get through to] [<who>|{business}]
                dial the number {phone_number}
                <dial> everyone in {group}
                <dial> the {group} group
                <dial> the [{business}|number] at {address}
                [use|open] {app} (and|to) call <who>
                try {contact} again (on {phone_type})
                <dial> <who> and put it on {device}
                <dial> back {phone_number}
                <dial> {contact} not {contact}
                <dial> {contact} in {city}
            """,
            say="""
                {contact}
                [a|one] call to <who>
                {phone_number}
                phone call {contact}
                i [need|want] [to talk to|to speak with] <who>
                call
                {contact} on {phone_type}
                i [missed|just missed] a call from <who> so call back
                {group}
                {business}
            """,
            ask="""
                can you get <who> on the line
                is [{contact}|my {relation}] [free|there|around] (to talk)
                [would you|could you] ring {contact} (at {phone_number})
            """,
        ),
        "video_call": Intent(
            weight=6,
            act="""
                video call <who>
                [start|make|place|begin] a video [call|chat] with <who>
                (video) chat with <who>
                video call <who> on [{app}|{device}|my {device}]
                call <who> [with video|on video|with the camera on]
                [face to face|video chat] with the {group} group
                <dial> {contact} on {app} with video
                [see|show me] {contact} on {device}
                start a video call with {group} {date}
                turn on [the camera|my camera|video] (for this call)
                [video dial|video ring] {phone_number}
                [start|open] a {app} video call (with <who>)
            """,
            say="""
                video
                video call
                video chat with {contact}
                i want to see [{contact}|my {relation}|the kids]
                {contact}
                {group}
            """,
        ),
        "send_message": Intent(
            weight=22,
            act="""
                text {contact} {message}
                <text> <who> <say> {message}
                tell <who> {message}
                <text> <who>
                text my {relation} {message}
                send {message} to <who>
                let <who> know [that|] {message}
                send a (text|voice|quick) message to <who> <say> {message}
                <text> <who> on {app} <say> {message}
                send <who> a [message|text|note|{media}]
                send <who> a message <say> {message}
                [reply|answer] {contact} with {message}
                tell the {group} [group|chat|] {message}
                [post|send] {message} [to|in] the {group} (group|chat)
                [send|forward|share] [this|that|the|my last] {media} [to|with] <who>
                <text> {phone_number} <say> {message}
                message the {group} group <say> {message}
                send a {app} message to <who> <say> {message}
                ask <who> [if|whether] {message}
                [use|open] {app} to tell <who> {message}
                [drop|send] a line to {contact}
                text <who> [at|on] {phone_number} {message}
                <text> {contact} and {contact} <say> {message}
                wish <who> a happy birthday
                send {contact} my [address|number|{media}]
                send the address {address} to {contact}
                text {contact} {phone_number}
            """,
            say="""
                text {contact}
                message [for|to] <who> {message}
                new message to <who> <say> {message}
                i [want|need] to [text|message] <who> (that) {message}
                {contact} {message}
                {contact}
                {group} {message}
                {message}
            """,
            ask="""
                can you [text|tell] {contact} {message}
                will you let <who> know {message}
            """,
        ),
        "read_messages": Intent(
            weight=9,
            act="""
                read my <msgs>
                [read|check|show|open|get] (me) my <msgs>
                read (me) the [last|latest|newest] [message|text] (from <who>)
                read (me) the (last) {count} <msgs> (from <who>)
                [show|read|open] (me) [<whose>|the] [message|text|last message] (again)
                [show|read] (me) <msgs> from {date:past}
                check {app} (for new messages)
                [open|show] [the|my] {group} chat
                [show|find] the {media} [that|] {contact} sent (me) {date:past}
                read what <who> [said|wrote|sent] ({date:past})
                play the voice message from <who>
            """,
            ask="""
                [do i have|have i got|are there] any [new|unread] [messages|texts]
                [did|has] <who> [text|text me|message me|reply|write back|answer] ({date:past})
                what did <who> [say|write|send] ({date:past})
                any [messages|texts|news] (from <who>|on {app}|from the {group} group)
                who [texted|messaged] me ({date:past})
                what does [the|<whose>] [message|text] say
                how many <msgs> do i have (from {contact})
                what's new [on|in] {app}
                what time did {contact} [text|message] (me)
            """,
            say="""
                [messages|texts|my messages|inbox]
                messages from {contact}
                what'd i miss
                {contact}
                {group}
                anything from {contact}
            """,
        ),
        "reply_message": Intent(
            weight=5,
            act="""
                reply {message}
                [reply|respond|answer] (to) (<who>) (with) {message}
                [reply|respond] to [that|this|the last message|the last text] (with {message})
                [say|write|text] back {message}
                tell [him|her|them] {message}
                reply to <who> on {app} {message}
                answer [him|her|them] {message}
                [reply|respond] to the {group} group [saying|with] {message}
                send back a {media}
                say {message}
            """,
            say="""
                reply
                [reply|answer] is {message}
                {message}
            """,
        ),
        "answer_call": Intent(
            weight=5,
            do="""
                [answer|pick up|take it|accept] (the call|the phone|it)
                answer <whose> call
                [answer|take|accept] [it|the call|this] on [speaker|{device}|the {device}]
                [let|put] {contact} through
                pick up it's [{contact}|my {relation}]
                take the call from <who>
                [answer|accept] with video
            """,
            say="""
                [answer|pick up|i'll take it|hello]
                yes [answer|take] it
                [i'll|let me] [get|take] that
            """,
            ask="""
                can you [answer|get|pick up] that
                who is [calling|it]
                who's [this|calling] (now)
            """,
        ),
        "end_call": Intent(
            weight=5,
            do="""
                hang up
                [end|stop|cut|disconnect|finish|cancel|drop] (the|this) call
                hang up (on <who>|the phone|now)
                [don't|do not] [answer|pick up|call]
                [decline|reject|ignore] (it|the call|<whose> call)
                end [the video call|the call with <who>|the chat with {contact}]
                [send|put] [it|{contact}|them] to voicemail
                [leave|drop out of] the {group} call
            """,
            say="""
                [hang up|bye|goodbye|that's all|end call|no don't]
                [stop|cancel] (calling|that)
                i'm done [talking|with this call|with {contact}]
            """,
        ),
        "redial": Intent(
            weight=3,
            act="""
                redial
                [redial|call back|retry] [the last number|the last person|that number|it]
                call [them|him|her|that number|the last caller|whoever called] back
                [redial|call back] {contact}
                call [back|again]
                [try|dial|call] [it|again|that|once more]
                return [the|my] [last|missed] call (from <who>)
                call back [the number that called|whoever rang] {date:past}
            """,
            say="""
                redial
                again
                [call|try] again
                we got cut off call (<who>) back
            """,
        ),
        "add_contact": Intent(
            weight=5,
            act="""
                add {contact} to my contacts
                [add|save|create|make|store] (a|a new) contact [for|called|named] {contact}
                save {phone_number} as {contact}
                [add|save|store] {contact} (with) (number) {phone_number}
                add {contact} at {phone_number} to my [contacts|address book|phone book]
                [add|save] {email_address} (as|for) {contact}
                [create|make] a (new) contact {contact} with email {email_address}
                add {contact} to (the) {group} (group)
                [save|remember] [this|that|the last] number as {contact}
                [make|add] {contact} [my emergency contact|a favorite|to my favorites]
                add {contact} who lives at {address}
                [start|make|create] a group called {group}
                [create|start] a {group} group with {contact} and {contact}
                add my new {relation} {contact}
            """,
            say="""
                new contact {contact} (number) {phone_number}
                {contact} is my {relation}
                my {relation}'s name is {contact}
                {contact} {phone_number}
                {contact} {email_address}
            """,
        ),
        "update_contact": Intent(
            weight=5,
            act="""
                [change|update|edit|correct] <whose> <number> to {phone_number}
                [update|change] <whose> [email|email address|address|details|birthday]
                [change|set|update] <whose> [address|home address] to {address}
                [change|set|update] <whose> email (address) to {email_address}
                set <whose> birthday to {birthday}
                [add|save] {phone_number} (as|to) <whose> {phone_type}
                add {birthday} as <whose> birthday
                [rename|change] {contact} to {contact}
                [delete|remove|erase] {contact} (from my contacts|from the {group} group)
                [delete|remove] <whose> [old number|{phone_type} number|email|address]
                [move|add] {contact} to the {group} group
                [merge|combine] {contact} and {contact}
                [put|note] {address} as <whose> address
            """,
            say="""
                <whose> new [number|address|email] is [{phone_number}|{address}|{email_address}]
                <whose> birthday is (on) {birthday}
                {contact} [moved to|lives at|lives in] [{address}|{city}] now
                {contact} [has|got] a new (phone) number {phone_number}
                {contact} {phone_number}
                {contact} {address}
            """,
        ),
        "find_contact": Intent(
            weight=5,
            act="""
                [find|show|look up|get] (me) <whose> <number>
                [find|show|look up|pull up|open] {contact}
                [find|show|look up|tell] (me) <whose> [address|email|email address|birthday]
                [search|look in] my contacts for [{contact}|{city}|{business}]
                [find|look up] the number [for|of] {business} (in {city})
                look up {phone_number}
                [list|show] (me) (all) [my contacts|everyone in {group}|my favorites]
                show (me) [my contacts|everyone|people] in {city}
            """,
            ask="""
                what's <whose> <number>
                what is <whose> [email|address|email address|work address|new address]
                when is <whose> birthday
                where does <who> live
                who is {phone_number}
                who's [in|part of] the {group} group
                do i have <whose> [number|email|address]
                whose [number|birthday] is [{phone_number}|{birthday}]
                what's the number [for|of] {business} (in {city})
                who [lives in|do i know in] {city}
            """,
            say="""
                <whose> <number>
                {contact}
                {business} (in {city})
            """,
        ),
        "block_contact": Intent(
            weight=3,
            act="""
                block {contact}
                [block|unblock|mute|silence|unmute] (calls from) [{contact}|{phone_number}]
                [block|ignore|stop] (all) [calls|texts|messages] from [<who>|{phone_number}]
                [mute|silence] (the) {group} (chat|group) (for {duration})
                block [this|that|the last] [number|caller]
                [mark|report] {phone_number} as spam
                block {contact} on {app}
                mute {contact} [until {time}|for {duration}]
            """,
            say="""
                [don't|never] let {contact} call me
                i don't want [calls|messages|texts] from [{contact}|{phone_number}]
                do not disturb (for {duration}|until {time}|{date})
                {phone_number}
            """,
        ),
        "send_email": Intent(
            weight=6,
            act="""
                <mail> <who>
                send an <mail> to <who> (about {subject})
                <mail> {contact} about {subject}
                send an <mail> to {email_address}
                <mail> {email_address} (about {subject}|that {message})
                <mail> <who> <say> {message}
                [write|compose|draft|start] an <mail> (to <who>) (about {subject})
                <mail> {contact} with (the) subject {subject} [and say|saying] {message}
                [forward|send] [this|that|the last] <mail> to [<who>|{email_address}]
                <mail> (the) {group} (group) about {subject}
                [reply|respond] to <whose> <mail> (about {subject})
                <mail> the {media} to <who>
                [cc|copy|include] {contact} (on the {subject} email)
            """,
            say="""
                [new|an] <mail> to <who>
                i [need|have] to write (to) {contact} about {subject}
                subject {subject}
            """,
        ),
        "check_email": Intent(
            weight=4,
            act="""
                [check|read|open|show] (me) my <mail>
                [find|show|read|open] (me) the (last) <mail> from <who> (about {subject})
                [find|search for|look for] [emails|mail] about {subject} (from {date:past})
                read (me) the (last) {count} emails (from <who>)
                [delete|archive] [the|all] [emails|mail] from [<who>|{business}|{date:past}]
                [open|show] the {media} from <whose> <mail>
            """,
            ask="""
                do i have (any) (new) <mail> (from <who>|from {business}|about {subject})
                [did|has] <who> [email|answer|email me] (about {subject}) ({date:past})
                any (new) <mail> (from {contact})
                what's <whose> <mail> [about|saying]
                how many emails [do i have|did i get] ({date:past})
            """,
            say="""
                [email|my mail|inbox|new mail]
                emails from {contact}
                [mail|emails] about {subject}
                anything from {contact}
                {subject}
            """,
        ),
        "check_voicemail": Intent(
            weight=4,
            act="""
                [play|check|listen to|read|get] my [voicemail|voicemails|voice messages]
                play (me) the [last|latest|first] voicemail (from <who>)
                [play|delete|save] <whose> (last) [voicemail|message]
                [show|list|check] (me) my [missed calls|recent calls|calls] (from {date:past})
                [delete|erase] [all|my|the last {count}] voicemails (from <who>)
                play the voicemail from {phone_number}
            """,
            ask="""
                [did|has] <who> [call|called|ring] ({date:past}|today|back)
                [do i have|are there] any [voicemails|missed calls|messages] (from <who>)
                who called (me) ({date:past}|at {time}|from {phone_number})
                any missed calls (from <who>|{date:past})
                how long did i [talk to|speak with] <who> ({date:past})
                when did <who> (last) call
            """,
            say="""
                [voicemail|voicemails|missed calls|recent calls]
                voicemail from {contact}
                {contact}
                anything from {contact} ({date:past})
            """,
        ),
        "schedule_call": Intent(
            weight=6,
            do="""
                remind me to [call|text|email|message] <who> <when>
                remind me to <dial> [<who>|{business}|{phone_number}] <when>
                [schedule|set up|book|plan] a (phone|video) call with <who> (for|on) <when>
                [call|text|message] <who> <when>
                send <who> {message} <when>
                [schedule|delay] (a|the) message to <who> (for) <when>
                [set|make] a reminder to [call|ring|text] <who> <when>
                [move|push|change] [the|my] call with <who> to <when>
                cancel [the|my] call with <who> ({date})
                don't let me forget to [call|text] <who> <when>
                remind me about <whose> birthday (on {birthday}|{date})
                set up a {group} meeting <when>
                remind me to call <who> when i [get home|get to {address}|get to {city}|leave work]
            """,
            ask="""
                when is my (next) call with <who>
                [can|could] you remind me to [call|text] <who> <when>
                what calls do i have {date}
                do i have a call [{date}|at {time}|with {contact}]
            """,
            say="""
                i [need|have] to [call|text|ring] <who> <when>
                call with {contact} <when>
                {contact} <when>
                call {contact} {date}
            """,
        ),
        "join_meeting": Intent(
            weight=3,
            act="""
                join the [meeting|call|conference call|{group} call|{time} meeting]
                [join|start|open] (the) (meeting) (on {app}) with <who>
                [join|dial into|get into] my {time} [meeting|call]
                join the {subject} meeting (on {app})
                [add|invite|bring in] <who> to [the|this] [call|meeting]
                [dial|call] into the meeting at {phone_number}
                [merge|join] the calls
                [mute|unmute] [me|myself|everyone|the call|{contact}]
                [put|switch] [it|the call|this] [on|to] (the) {device}
                put [{contact}|the call|them|him] on hold (for {duration})
            """,
            say="""
                [mute|unmute|hold|speaker]
                [i'm|i am] [late for|missing] the {group} [call|meeting]
            """,
        ),
        "share_location": Intent(
            weight=3,
            act="""
                [share|send] my location [with|to] <who> (for {duration}|until {time}|on {app})
                [send|tell|text] <who> where i am
                [stop|quit] sharing my location (with <who>)
                share my location with the {group} group
                tell <who> i'm [at|near] [{address}|{business}] (in {city})
                let <who> know i'm in {city}
                [send|share] [my|the] [eta|address] [to|with] <who>
                share {address} with <who> [on|over] {app}
                [find|locate] [{contact}|my {relation}]
            """,
            ask="""
                where is [{contact}|my {relation}] (right now)
                [how far|how long] [is|until] {contact} (from {address}|from {city})
                is [{contact}|my {relation}] [home|at work|in {city}|at {address}] (yet)
            """,
            say="""
                my location
                i'm [at|near] [{address}|{business}|{city}]
            """,
        ),
    },
)
